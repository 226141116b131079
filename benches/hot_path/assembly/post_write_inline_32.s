    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov rax,rdi
    mov r14,QWORD PTR [rdx+0x20]
    mov r15d,DWORD PTR [rdx+0x30]
    mov rbx,QWORD PTR [rdx+0x38]
    mov edi,DWORD PTR [rsi+0x54]
    mov ecx,DWORD PTR [rsi+0x6c]
    sub edi,ecx
    cmp edi,0x1
    jbe 3
1:
    movzx r8d,cx
    shl r8d,0x8
    or r8d,0x8
    bswap r8d
    or r8,QWORD PTR [rsi+0x48]
    movabs rdi,0x500000000000000
    or rdi,r8
    mov r8d,DWORD PTR [rsi+0x68]
    mov r9d,r8d
    and r9d,ecx
    mov r10,QWORD PTR [rsi]
    mov r11,r9
    shl r11,0x6
    mov QWORD PTR [r10+r11*1],rdi
    mov QWORD PTR [r10+r11*1+0x8],0x8000000
    bswap r14
    bswap r15d
    mov QWORD PTR [r10+r11*1+0x10],r14
    mov QWORD PTR [r10+r11*1+0x18],r15
    mov ebp,DWORD PTR [rdx+0x1c]
    mov DWORD PTR [r10+r11*1+0x20],0x20000080
    movups xmm0,XMMWORD PTR [rdx]
    movups xmm1,XMMWORD PTR [rdx+0xc]
    movups XMMWORD PTR [r10+r11*1+0x24],xmm0
    movups XMMWORD PTR [r10+r11*1+0x30],xmm1
    mov edx,r9d
    inc edx
    and edx,r8d
    shl rdx,0x6
    mov DWORD PTR [r10+rdx*1],ebp
    mov rdx,QWORD PTR [rsi+0x40]
    mov QWORD PTR [rdx+r9*8],rbx
    lea edx,[rcx+0x2]
    mov DWORD PTR [rsi+0x6c],edx
    mov QWORD PTR [rsi+0x58],rdi
    mov DWORD PTR [rsi+0x74],ecx
    mov edx,0x4
2:
    mov DWORD PTR [rax],edx
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
3:
    mov r12,rdx
    mov r13,rsi
    mov rdi,rsi
    mov esi,0x2
    mov rbp,rax
    call <doorbell::mlx5::ring::send::SendRing<R,C>::has_room>
    mov ecx,eax
    mov rax,rbp
    xor edx,edx
    test cl,cl
    je 2
    mov rsi,r13
    mov ecx,DWORD PTR [r13+0x6c]
    mov rdx,r12
    jmp 1
