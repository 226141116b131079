    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    sub rsp,0x28
    mov rax,rdi
    mov ebx,DWORD PTR [rdx+0x8]
    mov r12,QWORD PTR [rdx+0x10]
    mov r15d,DWORD PTR [rdx+0x20]
    mov r8,QWORD PTR [rdx+0x28]
    test rbx,rbx
    je 3
    mov r14,QWORD PTR [rdx]
    mov r13d,DWORD PTR [rdx+0xc]
    mov ecx,DWORD PTR [rsi+0x6c]
    cmp DWORD PTR [rsi+0x54],ecx
    je 4
1:
    movzx edi,cx
    shl edi,0x8
    or edi,0x8
    bswap edi
    or rdi,QWORD PTR [rsi+0x48]
    movabs rdx,0x300000000000000
    or rdx,rdi
    mov edi,DWORD PTR [rsi+0x68]
    and edi,ecx
    mov r9,QWORD PTR [rsi]
    mov r10,rdi
    shl r10,0x6
    mov QWORD PTR [r9+r10*1],rdx
    bswap r12
    mov QWORD PTR [r9+r10*1+0x8],0x8000000
    bswap r15d
    mov QWORD PTR [r9+r10*1+0x10],r12
    mov QWORD PTR [r9+r10*1+0x18],r15
    and ebx,0x7fffffff
    bswap r14
    shl rbx,0x20
    or rbx,r13
    bswap rbx
    mov QWORD PTR [r9+r10*1+0x20],rbx
    mov QWORD PTR [r9+r10*1+0x28],r14
    mov r9,QWORD PTR [rsi+0x40]
    mov QWORD PTR [r9+rdi*8],r8
    lea edi,[rcx+0x1]
    mov DWORD PTR [rsi+0x6c],edi
    mov QWORD PTR [rsi+0x58],rdx
    mov DWORD PTR [rsi+0x74],ecx
    mov DWORD PTR [rax],0x4
2:
    add rsp,0x28
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
3:
    mov ecx,DWORD PTR [rdx+0x24]
    mov rdx,QWORD PTR [rdx+0x18]
    mov QWORD PTR [rsp+0x10],r12
    mov QWORD PTR [rsp+0x18],rdx
    mov DWORD PTR [rsp+0x20],r15d
    mov DWORD PTR [rsp+0x24],ecx
    lea rdx,[rsp+0x10]
    mov rbx,rax
    mov rdi,rax
    mov ecx,0x8
    call <doorbell::mlx5::ring::send::SendRing<R,C>::write_bare>
    mov rax,rbx
    jmp 2
4:
    mov QWORD PTR [rsp+0x8],r8
    mov rbp,rax
    mov QWORD PTR [rsp],rsi
    mov rdi,rsi
    mov esi,0x1
    call <doorbell::mlx5::ring::send::SendRing<R,C>::has_room>
    test al,al
    je 5
    mov rsi,QWORD PTR [rsp]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov rax,rbp
    mov r8,QWORD PTR [rsp+0x8]
    jmp 1
5:
    mov rax,rbp
    mov DWORD PTR [rbp+0x0],0x0
    jmp 2
