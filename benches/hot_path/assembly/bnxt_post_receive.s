    push r15
    push r14
    push rbx
    mov rax,rdi
    mov ecx,DWORD PTR [rsi+0x60]
    mov edi,DWORD PTR [rsi+0x68]
    sub edi,ecx
    add edi,DWORD PTR [rsi+0x44]
    je 3
1:
    mov edi,DWORD PTR [rsi+0x5c]
    and edi,ecx
    mov r8,QWORD PTR [rsi]
    mov r9,QWORD PTR [rsi+0x50]
    imul r9,rdi
    shl r9,0x4
    mov QWORD PTR [r8+r9*1],0x30080
    mov QWORD PTR [r8+r9*1+0x8],rdi
    mov QWORD PTR [r8+r9*1+0x10],0x0
    mov QWORD PTR [r8+r9*1+0x18],0x0
    mov rdi,QWORD PTR [rdx]
    mov r10d,DWORD PTR [rdx+0xc]
    mov r11d,DWORD PTR [rdx+0x8]
    shl r11,0x20
    or r11,r10
    mov QWORD PTR [r8+r9*1+0x20],rdi
    mov QWORD PTR [r8+r9*1+0x28],r11
    lea edi,[rcx+0x1]
    mov DWORD PTR [rsi+0x60],edi
    mov rsi,QWORD PTR [rsi+0x8]
    mov rdx,QWORD PTR [rdx+0x10]
    mov rdi,QWORD PTR [rsi]
    and ecx,DWORD PTR [rsi+0x8]
    shl rcx,0x4
    mov QWORD PTR [rdi+rcx*1],rdx
    mov DWORD PTR [rdi+rcx*1+0x8],0x1
    mov edx,0x4
2:
    mov DWORD PTR [rax],edx
    pop rbx
    pop r14
    pop r15
    ret
3:
    mov rbx,rdx
    mov r14,rsi
    mov rdi,rsi
    mov r15,rax
    call <doorbell::bnxt::ring::receive::ReceiveRing<R>::has_room>
    mov ecx,eax
    mov rax,r15
    xor edx,edx
    test cl,cl
    je 2
    mov rsi,r14
    mov ecx,DWORD PTR [r14+0x60]
    mov rdx,rbx
    jmp 1
