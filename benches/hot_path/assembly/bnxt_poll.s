    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov rbx,rdi
    mov rax,QWORD PTR [rdx]
    movzx ecx,BYTE PTR [rax+0x18]
    cmp QWORD PTR [rdx+0x68],0x0
    jne 6
    movzx edi,BYTE PTR [rdx+0x94]
    cmp cl,dil
    jne 3
    mov rdi,QWORD PTR [rax+0x8]
    mov r14d,DWORD PTR [rdx+0x20]
    and r14d,DWORD PTR [rax]
    movzx r8d,BYTE PTR [rax+0x19]
    mov rax,QWORD PTR [rdx+0x18]
    mov rax,QWORD PTR [rax+r14*8]
    test rax,rax
    je 5
    mov ecx,DWORD PTR [rax+0x10]
    test r8b,r8b
    jne 5
    sub edi,ecx
    and edi,DWORD PTR [rax+0x30]
    cmp edi,0x1
    jne 5
    mov edi,DWORD PTR [rax+0xc]
    cmp edi,ecx
    je 5
    mov rdi,QWORD PTR [rax]
    mov r8d,DWORD PTR [rax+0x8]
    and r8d,ecx
    shl r8,0x4
    test BYTE PTR [rdi+r8*1+0x8],0x1
    je 5
    add rdi,r8
    inc ecx
    mov r15,QWORD PTR [rdi]
    mov DWORD PTR [rax+0x10],ecx
    mov eax,DWORD PTR [rdx+0x80]
    inc eax
    mov DWORD PTR [rdx+0x80],eax
    mov rcx,QWORD PTR [rdx]
    add rcx,0x20
    mov QWORD PTR [rdx],rcx
    cmp rcx,QWORD PTR [rdx+0x8]
    je 8
    cmp eax,DWORD PTR [rdx+0x84]
    jne 2
1:
    mov rdi,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::tell>
2:
    mov DWORD PTR [rbx],0x4
    mov QWORD PTR [rbx+0x8],r15
    mov DWORD PTR [rbx+0x10],r14d
    jmp 13
3:
    lea r8d,[rdi+0x2]
    cmp cl,r8b
    jne 4
    mov r14,QWORD PTR [rax]
    mov r8d,DWORD PTR [rax+0x1c]
    movzx edi,WORD PTR [rax+0x1a]
    mov r15d,DWORD PTR [rdx+0x20]
    and r15d,DWORD PTR [rax+0x8]
    movzx r9d,BYTE PTR [rax+0x19]
    mov rax,QWORD PTR [rdx+0x18]
    mov rax,QWORD PTR [rax+r15*8]
    test rax,rax
    je 5
    mov ecx,DWORD PTR [rax+0x28]
    test r9b,r9b
    jne 5
    xor r8d,ecx
    and r8d,DWORD PTR [rax+0x20]
    and r8d,0xfffff
    jne 5
    mov r8d,DWORD PTR [rax+0x24]
    cmp r8d,ecx
    je 5
    test dil,0xe
    je 9
    mov ebp,0x3
    test dil,0x8
    jne 10
    and edi,0x2
    xor ebp,ebp
    cmp di,0x1
    adc ebp,0x1
    jmp 10
4:
    xor cl,dil
    test cl,0x1
    je 6
    mov rax,QWORD PTR [rdx+0x28]
    movzx eax,BYTE PTR [rax+0x20]
    test al,al
    jne 6
    mov DWORD PTR [rbx],0x8
    jmp 7
5:
    mov DWORD PTR [rbx],0x8
6:
    mov rdi,rbx
    mov r14,rsi
    mov rsi,rdx
    mov r15,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::poll_rarely>
    mov rsi,r14
    mov rdx,r15
    cmp DWORD PTR [rbx],0x8
    jne 13
7:
    movzx eax,BYTE PTR [rsi+0x2c]
    test al,al
    je 13
    mov rdi,rsi
    mov rsi,rdx
    call <doorbell::ring::committed::Committed<T>::reclaim>
    jmp 13
8:
    mov rcx,QWORD PTR [rdx+0x10]
    mov QWORD PTR [rdx],rcx
    xor BYTE PTR [rdx+0x94],0x1
    cmp eax,DWORD PTR [rdx+0x84]
    je 1
    jmp 2
9:
    xor ebp,ebp
10:
    mov r12,r14
    shr r12,0x20
    lea esi,[rcx+0x1]
    and ecx,DWORD PTR [rax+0x20]
    mov rdi,QWORD PTR [rax+0x18]
    shl rcx,0x4
    mov r13,QWORD PTR [rdi+rcx*1]
    mov DWORD PTR [rax+0x28],esi
    mov eax,DWORD PTR [rdx+0x80]
    inc eax
    mov DWORD PTR [rdx+0x80],eax
    mov rcx,QWORD PTR [rdx]
    add rcx,0x20
    mov QWORD PTR [rdx],rcx
    cmp rcx,QWORD PTR [rdx+0x8]
    jne 11
    mov rcx,QWORD PTR [rdx+0x10]
    mov QWORD PTR [rdx],rcx
    xor BYTE PTR [rdx+0x94],0x1
11:
    cmp eax,DWORD PTR [rdx+0x84]
    jne 12
    mov rdi,rdx
    call <doorbell::bnxt::ring::completion::CompletionRing<R>::tell>
12:
    mov DWORD PTR [rbx],ebp
    mov DWORD PTR [rbx+0x4],r12d
    mov QWORD PTR [rbx+0x8],r13
    mov DWORD PTR [rbx+0x10],r15d
    mov DWORD PTR [rbx+0x14],r14d
    mov BYTE PTR [rbx+0x18],0x0
13:
    mov rax,rbx
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
