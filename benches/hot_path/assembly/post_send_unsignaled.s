    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov r14d,DWORD PTR [rdx+0x8]
    mov rbx,QWORD PTR [rdx+0x10]
    test r14,r14
    je 4
    mov r15,QWORD PTR [rdx]
    mov r12d,DWORD PTR [rdx+0xc]
    mov eax,DWORD PTR [rsi+0x6c]
    cmp DWORD PTR [rsi+0x54],eax
    je 5
1:
    movzx edx,ax
    shl edx,0x8
    or edx,0xa
    bswap edx
    or rdx,QWORD PTR [rsi+0x48]
    movabs rcx,0x200000000000000
    or rcx,rdx
    mov edx,DWORD PTR [rsi+0x68]
    and edx,eax
    mov r8,QWORD PTR [rsi]
    mov r9,rdx
    shl r9,0x6
    mov QWORD PTR [r8+r9*1],rcx
    mov QWORD PTR [r8+r9*1+0x8],0x0
    and r14d,0x7fffffff
    bswap r15
    shl r14,0x20
    or r14,r12
    bswap r14
    mov QWORD PTR [r8+r9*1+0x10],r14
    mov QWORD PTR [r8+r9*1+0x18],r15
    mov r8,QWORD PTR [rsi+0x40]
    mov QWORD PTR [r8+rdx*8],rbx
    inc eax
    mov DWORD PTR [rsi+0x6c],eax
    mov QWORD PTR [rsi+0x58],rcx
    mov DWORD PTR [rdi],0x4
2:
    mov rax,rdi
3:
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
4:
    mov r14,rdi
    xor edx,edx
    mov rcx,rbx
    call <doorbell::mlx5::ring::send::SendRing<R,C>::write_bare>
    mov rax,r14
    jmp 3
5:
    mov r13,rdi
    mov rbp,rsi
    mov rdi,rsi
    mov esi,0x1
    call <doorbell::mlx5::ring::send::SendRing<R,C>::has_room>
    test al,al
    je 6
    mov rsi,rbp
    mov eax,DWORD PTR [rbp+0x6c]
    mov rdi,r13
    jmp 1
6:
    mov rdi,r13
    mov DWORD PTR [r13+0x0],0x0
    jmp 2
