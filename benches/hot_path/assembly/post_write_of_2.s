    mov rax,rdi
    mov rcx,QWORD PTR [rsi+0x28]
    add rcx,0xfffffffffffffffe
    cmp rcx,0x2
    jae 1
    mov edx,0x1
    mov edi,0x2
    mov DWORD PTR [rax],edx
    mov DWORD PTR [rax+0x4],edi
    mov DWORD PTR [rax+0x8],ecx
    ret
1:
    mov ecx,DWORD PTR [rdx+0x8]
    mov r8d,DWORD PTR [rdx+0x18]
    lea r9,[r8+rcx*1]
    mov rdi,QWORD PTR [rsi+0x30]
    cmp r9,rdi
    jbe 2
    mov edx,0x3
    mov DWORD PTR [rax],edx
    mov DWORD PTR [rax+0x4],edi
    mov DWORD PTR [rax+0x8],ecx
    ret
2:
    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    xor r14d,r14d
    test r8d,r8d
    setne r14b
    cmp ecx,0x1
    sbb r14,0xffffffffffffffff
    mov rbx,QWORD PTR [rdx+0x38]
    mov ecx,DWORD PTR [rsi+0x6c]
    cmp DWORD PTR [rsi+0x54],ecx
    je 7
3:
    movzx r8d,cx
    shl r8d,0x8
    or r8d,0x8
    bswap r8d
    shl r14,0x38
    or r8,r14
    movabs rdi,0x200000000000000
    add rdi,r8
    or rdi,QWORD PTR [rsi+0x48]
    mov r9d,DWORD PTR [rsi+0x68]
    mov r8d,r9d
    and r8d,ecx
    mov r10,QWORD PTR [rsi]
    mov r11,r8
    shl r11,0x6
    mov QWORD PTR [r10+r11*1],rdi
    mov QWORD PTR [r10+r11*1+0x8],0x8000000
    mov r14,QWORD PTR [rdx+0x20]
    mov r15d,DWORD PTR [rdx+0x30]
    bswap r14
    bswap r15d
    mov QWORD PTR [r10+r11*1+0x10],r14
    mov QWORD PTR [r10+r11*1+0x18],r15
    mov r11d,0x2
    xor r14d,r14d
4:
    cmp r14,0x20
    je 5
    mov r15d,DWORD PTR [rdx+r14*1+0x8]
    add r14,0x10
    test r15,r15
    je 4
    mov r12,QWORD PTR [rdx+r14*1-0x10]
    mov r13d,DWORD PTR [rdx+r14*1-0x4]
    and r15d,0x7fffffff
    bswap r12
    shl r15,0x20
    or r15,r13
    bswap r15
    mov r13,r11
    shr r13,0x2
    lea ebp,[r8+r13*1]
    and ebp,r9d
    test r13,r13
    cmove ebp,r8d
    mov r13d,r11d
    and r13d,0x3
    shl rbp,0x6
    add rbp,r10
    shl r13d,0x4
    mov QWORD PTR [r13+rbp*1+0x0],r15
    mov QWORD PTR [r13+rbp*1+0x8],r12
    inc r11
    jmp 4
5:
    mov rdx,QWORD PTR [rsi+0x40]
    mov QWORD PTR [rdx+r8*8],rbx
    inc ecx
    mov DWORD PTR [rsi+0x6c],ecx
    mov QWORD PTR [rsi+0x58],rdi
    mov edx,0x4
6:
    mov DWORD PTR [rax],edx
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
7:
    mov r15,rdx
    mov r12,rsi
    mov rdi,rsi
    mov esi,0x1
    mov r13,rax
    call <doorbell::mlx5::ring::send::SendRing<R,C>::has_room>
    mov ecx,eax
    mov rax,r13
    xor edx,edx
    test cl,cl
    je 6
    mov rsi,r12
    mov ecx,DWORD PTR [r12+0x6c]
    mov rdx,r15
    jmp 3
