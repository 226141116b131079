    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    sub rsp,0x18
    mov rax,rdi
    mov rbx,QWORD PTR [rdx]
    mov r14d,DWORD PTR [rdx+0x8]
    mov r12d,DWORD PTR [rdx+0xc]
    mov rbp,QWORD PTR [rdx+0x10]
    mov r15d,DWORD PTR [rdx+0x20]
    mov r13,QWORD PTR [rdx+0x28]
    mov r10,QWORD PTR [rdx+0x30]
    mov ecx,DWORD PTR [rsi+0x6c]
    cmp DWORD PTR [rsi+0x54],ecx
    je 3
1:
    movzx edi,cx
    shl edi,0x8
    or edi,0x12
    bswap edi
    or rdi,QWORD PTR [rsi+0x48]
    movabs rdx,0x400000000000000
    or rdx,rdi
    mov edi,DWORD PTR [rsi+0x68]
    and edi,ecx
    mov r8,QWORD PTR [rsi]
    mov r9,rdi
    shl r9,0x6
    mov QWORD PTR [r8+r9*1],rdx
    mov QWORD PTR [r8+r9*1+0x8],0x8000000
    bswap rbp
    bswap r15d
    mov QWORD PTR [r8+r9*1+0x10],rbp
    mov QWORD PTR [r8+r9*1+0x18],r15
    bswap r13
    mov QWORD PTR [r8+r9*1+0x20],r13
    mov QWORD PTR [r8+r9*1+0x28],0x0
    and r14d,0x7fffffff
    bswap rbx
    shl r14,0x20
    or r14,r12
    bswap r14
    mov QWORD PTR [r8+r9*1+0x30],r14
    mov QWORD PTR [r8+r9*1+0x38],rbx
    mov r8,QWORD PTR [rsi+0x40]
    mov QWORD PTR [r8+rdi*8],r10
    inc ecx
    mov DWORD PTR [rsi+0x6c],ecx
    mov QWORD PTR [rsi+0x58],rdx
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
    mov QWORD PTR [rsp],r10
    mov QWORD PTR [rsp+0x8],rsi
    mov rdi,rsi
    mov esi,0x1
    mov QWORD PTR [rsp+0x10],rax
    call <doorbell::mlx5::ring::send::SendRing<R,C>::has_room>
    mov ecx,eax
    mov rax,QWORD PTR [rsp+0x10]
    xor edx,edx
    test cl,cl
    je 2
    mov rsi,QWORD PTR [rsp+0x8]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov r10,QWORD PTR [rsp]
    jmp 1
