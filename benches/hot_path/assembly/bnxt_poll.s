    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov rbx,rdi
    mov rax,QWORD PTR [rdx]
    mov ecx,DWORD PTR [rdx+0x74]
    mov edi,DWORD PTR [rdx+0x70]
    mov r9d,edi
    and r9d,ecx
    shl r9,0x5
    movzx r8d,BYTE PTR [rax+r9*1+0x18]
    cmp QWORD PTR [rdx+0x58],0x0
    jne 5
    add rax,r9
    inc edi
    test edi,ecx
    sete r9b
    cmp r8b,r9b
    jne 2
    mov rdi,QWORD PTR [rax+0x8]
    mov r14d,DWORD PTR [rdx+0x10]
    and r14d,DWORD PTR [rax]
    movzx r8d,BYTE PTR [rax+0x19]
    mov rax,QWORD PTR [rdx+0x8]
    mov rax,QWORD PTR [rax+r14*8]
    test rax,rax
    je 4
    mov ecx,DWORD PTR [rax+0x10]
    test r8b,r8b
    jne 4
    sub edi,ecx
    and edi,DWORD PTR [rax+0x30]
    cmp edi,0x1
    jne 4
    mov edi,DWORD PTR [rax+0xc]
    cmp edi,ecx
    je 4
    mov rdi,QWORD PTR [rax]
    mov r8d,DWORD PTR [rax+0x8]
    and r8d,ecx
    shl r8,0x4
    test BYTE PTR [rdi+r8*1+0x8],0x1
    je 4
    add rdi,r8
    inc ecx
    mov r15,QWORD PTR [rdi]
    mov DWORD PTR [rax+0x10],ecx
    mov eax,DWORD PTR [rdx+0x70]
    mov ecx,DWORD PTR [rdx+0x74]
    inc ecx
    mov DWORD PTR [rdx+0x74],ecx
    sub ecx,DWORD PTR [rdx+0x78]
    shr eax,1
    cmp ecx,eax
    jbe 1
    mov rdi,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::tell>
1:
    mov DWORD PTR [rbx],0x4
    mov QWORD PTR [rbx+0x8],r15
    mov DWORD PTR [rbx+0x10],r14d
    jmp 10
2:
    or r9b,0x2
    cmp r8b,r9b
    jne 3
    mov r14,QWORD PTR [rax]
    mov r8d,DWORD PTR [rax+0x1c]
    movzx edi,WORD PTR [rax+0x1a]
    mov r15d,DWORD PTR [rdx+0x10]
    and r15d,DWORD PTR [rax+0x8]
    movzx r9d,BYTE PTR [rax+0x19]
    mov rax,QWORD PTR [rdx+0x8]
    mov rax,QWORD PTR [rax+r15*8]
    test rax,rax
    je 4
    mov ecx,DWORD PTR [rax+0x28]
    test r9b,r9b
    jne 4
    xor r8d,ecx
    and r8d,DWORD PTR [rax+0x20]
    and r8d,0xfffff
    jne 4
    mov r8d,DWORD PTR [rax+0x24]
    cmp r8d,ecx
    je 4
    mov r12,r14
    shr r12,0x20
    test dil,0xe
    je 7
    mov ebp,0x3
    test dil,0x8
    jne 8
    and edi,0x2
    xor ebp,ebp
    cmp di,0x1
    adc ebp,0x1
    jmp 8
3:
    test edi,ecx
    sete al
    xor r8b,al
    test r8b,0x1
    je 5
    mov rax,QWORD PTR [rdx+0x18]
    movzx eax,BYTE PTR [rax+0x20]
    test al,al
    jne 5
    mov DWORD PTR [rbx],0x8
    jmp 6
4:
    mov DWORD PTR [rbx],0x8
5:
    mov rdi,rbx
    mov r14,rsi
    mov rsi,rdx
    mov r15,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::poll_rarely>
    mov rsi,r14
    mov rdx,r15
    cmp DWORD PTR [rbx],0x8
    jne 10
6:
    movzx eax,BYTE PTR [rsi+0x2c]
    test al,al
    je 10
    mov rdi,rsi
    mov rsi,rdx
    call <doorbell::ring::committed::Committed<T>::reclaim>
    jmp 10
7:
    xor ebp,ebp
8:
    lea esi,[rcx+0x1]
    and ecx,DWORD PTR [rax+0x20]
    mov rdi,QWORD PTR [rax+0x18]
    shl rcx,0x4
    mov r13,QWORD PTR [rdi+rcx*1]
    mov DWORD PTR [rax+0x28],esi
    mov eax,DWORD PTR [rdx+0x70]
    mov ecx,DWORD PTR [rdx+0x74]
    inc ecx
    mov DWORD PTR [rdx+0x74],ecx
    sub ecx,DWORD PTR [rdx+0x78]
    shr eax,1
    cmp ecx,eax
    jbe 9
    mov rdi,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::tell>
9:
    mov DWORD PTR [rbx],ebp
    mov DWORD PTR [rbx+0x4],r12d
    mov QWORD PTR [rbx+0x8],r13
    mov DWORD PTR [rbx+0x10],r15d
    mov DWORD PTR [rbx+0x14],r14d
    mov BYTE PTR [rbx+0x18],0x0
10:
    mov rax,rbx
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
