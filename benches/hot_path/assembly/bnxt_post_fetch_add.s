    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    sub rsp,0x18
    mov rax,rdi
    mov r14,QWORD PTR [rdx]
    mov r15d,DWORD PTR [rdx+0x8]
    mov r12d,DWORD PTR [rdx+0xc]
    mov rbp,QWORD PTR [rdx+0x10]
    mov ebx,DWORD PTR [rdx+0x20]
    mov r13,QWORD PTR [rdx+0x28]
    mov r11,QWORD PTR [rdx+0x30]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov edx,DWORD PTR [rsi+0x70]
    mov edi,ecx
    sub edi,edx
    add edi,DWORD PTR [rsi+0x80]
    cmp edi,0x3
    jb 3
    mov edi,DWORD PTR [rsi+0x74]
    mov r8d,DWORD PTR [rsi+0x7c]
    sub r8d,edi
    add r8d,DWORD PTR [rsi+0x5c]
    je 3
1:
    mov r8,QWORD PTR [rsi]
    shl rbx,0x20
    or rbx,0x10b
    mov r9d,edx
    and r9d,ecx
    shl r9,0x4
    mov QWORD PTR [r8+r9*1],rbx
    mov QWORD PTR [r8+r9*1+0x8],rbp
    lea r9d,[rdx+0x1]
    and r9d,ecx
    shl r9,0x4
    mov QWORD PTR [r8+r9*1],r13
    mov QWORD PTR [r8+r9*1+0x8],0x0
    lea r9d,[rdx+0x2]
    shl r15,0x20
    or r15,r12
    and r9d,ecx
    shl r9,0x4
    mov QWORD PTR [r8+r9*1],r14
    mov QWORD PTR [r8+r9*1+0x8],r15
    movzx ecx,BYTE PTR [rsi+0x88]
    mov r8d,0x7
    shr r8d,cl
    mov ecx,DWORD PTR [rsi+0x84]
    add r8d,ecx
    inc r8d
    mov r9d,DWORD PTR [rsi+0x6c]
    and ecx,0xffffff
    mov r10d,r8d
    and r10d,0xffffff
    shl r10,0x18
    or r10,rcx
    mov ecx,edx
    and ecx,r9d
    shl rcx,0x30
    or rcx,r10
    shr r9d,1
    mov r10,QWORD PTR [rsi+0x8]
    and r9d,edi
    mov QWORD PTR [r10+r9*8],rcx
    mov DWORD PTR [rsi+0x84],r8d
    lea ecx,[rdx+0x3]
    mov DWORD PTR [rsi+0x70],ecx
    lea ecx,[rdi+0x1]
    mov DWORD PTR [rsi+0x74],ecx
    mov rcx,QWORD PTR [rsi+0x10]
    lea edx,[rdx*2+0x7]
    mov rsi,QWORD PTR [rcx]
    and edi,DWORD PTR [rcx+0x8]
    shl rdi,0x4
    mov QWORD PTR [rsi+rdi*1],r11
    mov DWORD PTR [rsi+rdi*1+0x8],edx
    mov edx,0x4
2:
    mov DWORD PTR [rax],edx
    add rsp,0x18
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
3:
    mov QWORD PTR [rsp],r11
    mov QWORD PTR [rsp+0x8],rsi
    mov rdi,rsi
    mov esi,0x3
    mov QWORD PTR [rsp+0x10],rax
    call <doorbell::bnxt::ring::send::SendRing<R>::has_room>
    mov ecx,eax
    mov rax,QWORD PTR [rsp+0x10]
    xor edx,edx
    test cl,cl
    je 2
    mov rsi,QWORD PTR [rsp+0x8]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov edx,DWORD PTR [rsi+0x70]
    mov edi,DWORD PTR [rsi+0x74]
    mov r11,QWORD PTR [rsp]
    jmp 1
