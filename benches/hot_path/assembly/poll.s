    push rbp
    push r15
    push r14
    push rbx
    push rax
    mov rcx,rdi
    mov rax,QWORD PTR [rdx+0x20]
    movzx edi,BYTE PTR [rax+0x3f]
    movzx r8d,BYTE PTR [rdx+0x78]
    cmp dil,r8b
    jne 2
    mov edi,DWORD PTR [rax+0x20]
    bswap edi
    and edi,DWORD PTR [rdx+0x40]
    mov r8,QWORD PTR [rdx+0x38]
    mov r8,QWORD PTR [r8+rdi*8]
    test r8,r8
    je 6
    movzx esi,WORD PTR [rax+0x3c]
    rol si,0x8
    movzx r9d,si
    mov rsi,QWORD PTR [r8]
    mov r10d,DWORD PTR [r8+0x8]
    and r10d,r9d
    mov rsi,QWORD PTR [rsi+r10*8]
    mov WORD PTR [r8+0x10],r9w
    mov r8d,DWORD PTR [rdx+0x70]
    inc r8d
    mov DWORD PTR [rdx+0x70],r8d
    add rax,0x40
    mov QWORD PTR [rdx+0x20],rax
    cmp rax,QWORD PTR [rdx+0x28]
    jne 1
    mov rax,QWORD PTR [rdx+0x48]
    mov QWORD PTR [rdx+0x20],rax
    xor BYTE PTR [rdx+0x78],0x1
1:
    bswap r8d
    mov rax,QWORD PTR [rdx+0x30]
    mov DWORD PTR [rax],r8d
    mov DWORD PTR [rcx],0x4
    mov QWORD PTR [rcx+0x8],rsi
    mov DWORD PTR [rcx+0x10],edi
    jmp 9
2:
    xor r8b,dil
    test r8b,0x1
    jne 7
    mov rbx,rsi
    mov esi,DWORD PTR [rax+0x20]
    bswap esi
    and esi,DWORD PTR [rdx+0x40]
    mov r8,QWORD PTR [rdx+0x38]
    mov r10,QWORD PTR [r8+rsi*8]
    test r10,r10
    je 4
    mov r8d,edi
    shr r8b,0x4
    dec r8b
    cmp r8b,0x4
    jae 4
    movzx r8d,r8b
    lea r9,[rip]
    mov r8d,DWORD PTR [r9+r8*4]
    mov r9d,DWORD PTR [rax+0x24]
    movzx r11d,WORD PTR [rax+0x3c]
    rol r11w,0x8
    bswap r9d
    movzx ebp,r11w
    mov r11,QWORD PTR [r10+0x18]
    mov r14d,DWORD PTR [r10+0x20]
    and r14d,ebp
    mov r11,QWORD PTR [r11+r14*8]
    mov WORD PTR [r10+0x28],bp
    mov r10d,DWORD PTR [rax+0x2c]
    bswap r10d
    mov ebp,DWORD PTR [rdx+0x70]
    inc ebp
    mov DWORD PTR [rdx+0x70],ebp
    add rax,0x40
    mov QWORD PTR [rdx+0x20],rax
    cmp rax,QWORD PTR [rdx+0x28]
    jne 3
    mov rax,QWORD PTR [rdx+0x48]
    mov QWORD PTR [rdx+0x20],rax
    xor BYTE PTR [rdx+0x78],0x1
3:
    bswap ebp
    mov rax,QWORD PTR [rdx+0x30]
    mov DWORD PTR [rax],ebp
    shr dil,1
    and dil,0x1
    mov DWORD PTR [rcx],r8d
    mov DWORD PTR [rcx+0x4],r9d
    mov QWORD PTR [rcx+0x8],r11
    mov DWORD PTR [rcx+0x10],esi
    mov DWORD PTR [rcx+0x14],r10d
    mov BYTE PTR [rcx+0x18],dil
    mov rsi,rbx
    cmp DWORD PTR [rcx],0x8
    je 8
    jmp 9
4:
    mov rdi,rdx
    mov r14,rcx
    mov r15,rdx
    call <doorbell::mlx5::ring::completion::CompletionRing<R>::poll_rarely>
    mov rdx,r15
    mov rcx,r14
    test rax,rax
    mov rsi,rbx
    je 7
5:
    movups xmm0,XMMWORD PTR [rax]
    movups xmm1,XMMWORD PTR [rax+0x10]
    movups XMMWORD PTR [rcx+0x10],xmm1
    movups XMMWORD PTR [rcx],xmm0
    cmp DWORD PTR [rcx],0x8
    je 8
    jmp 9
6:
    mov rdi,rdx
    mov rbx,rcx
    mov r15,rdx
    mov r14,rsi
    call <doorbell::mlx5::ring::completion::CompletionRing<R>::poll_rarely>
    mov rsi,r14
    mov rdx,r15
    mov rcx,rbx
    test rax,rax
    jne 5
7:
    mov DWORD PTR [rcx],0x8
8:
    movzx eax,BYTE PTR [rsi+0x2c]
    test al,al
    jne 11
9:
    mov rax,rcx
10:
    add rsp,0x8
    pop rbx
    pop r14
    pop r15
    pop rbp
    ret
11:
    mov rdi,rsi
    mov rsi,rdx
    mov rbx,rcx
    call <doorbell::ring::committed::Committed<T>::reclaim>
    mov rax,rbx
    jmp 10
