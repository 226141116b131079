    push rbp
    push r14
    push rbx
    mov ebp,DWORD PTR [rdi+0x6c]
    mov eax,DWORD PTR [rdi+0x70]
    cmp ebp,eax
    je 6
    mov rsi,QWORD PTR [rdi+0x58]
    mov rbx,QWORD PTR [rdi+0x60]
    mov edx,DWORD PTR [rdi+0x68]
    mov r8d,DWORD PTR [rdi+0x74]
    movzx ecx,bp
    bswap ecx
    mov r9,QWORD PTR [rdi+0x10]
    mov DWORD PTR [r9],ecx
    sfence
    mov ecx,ebp
    sub ecx,r8d
    cmp r8d,eax
    sete r8b
    cmp ecx,0x5
    setb r9b
    test r8b,r9b
    je 1
    and edx,eax
    lea eax,[rcx+rdx*1]
    cmp eax,DWORD PTR [rdi+0x38]
    ja 7
    mov eax,edx
    shl rax,0x6
    add rax,QWORD PTR [rdi]
    mov rdx,QWORD PTR [rdi+0x18]
    add rdx,rbx
    cmp ecx,0x1
    jne 2
    xor ecx,ecx
    jmp 4
1:
    mov rax,QWORD PTR [rdi+0x18]
    mov QWORD PTR [rax+rbx*1],rsi
    jmp 5
2:
    mov esi,ecx
    mov r8d,esi
    and r8d,0x6
    mov r9d,0x70
    xor ecx,ecx
3:
    movups xmm0,XMMWORD PTR [rax+r9*1-0x70]
    movups xmm1,XMMWORD PTR [rax+r9*1-0x60]
    movups xmm2,XMMWORD PTR [rax+r9*1-0x50]
    movups xmm3,XMMWORD PTR [rax+r9*1-0x40]
    movaps XMMWORD PTR [rdx+r9*1-0x70],xmm0
    movaps XMMWORD PTR [rdx+r9*1-0x60],xmm1
    movaps XMMWORD PTR [rdx+r9*1-0x50],xmm2
    movaps XMMWORD PTR [rdx+r9*1-0x40],xmm3
    movups xmm0,XMMWORD PTR [rax+r9*1-0x30]
    movups xmm1,XMMWORD PTR [rax+r9*1-0x20]
    movups xmm2,XMMWORD PTR [rax+r9*1-0x10]
    movups xmm3,XMMWORD PTR [rax+r9*1]
    movaps XMMWORD PTR [rdx+r9*1-0x30],xmm0
    movaps XMMWORD PTR [rdx+r9*1-0x20],xmm1
    movaps XMMWORD PTR [rdx+r9*1-0x10],xmm2
    movaps XMMWORD PTR [rdx+r9*1],xmm3
    add rcx,0x2
    sub r9,0xffffffffffffff80
    cmp r8,rcx
    jne 3
    test sil,0x1
    je 5
4:
    shl rcx,0x6
    movups xmm0,XMMWORD PTR [rax+rcx*1]
    movups xmm1,XMMWORD PTR [rax+rcx*1+0x10]
    movups xmm2,XMMWORD PTR [rax+rcx*1+0x20]
    movups xmm3,XMMWORD PTR [rax+rcx*1+0x30]
    movaps XMMWORD PTR [rdx+rcx*1],xmm0
    movaps XMMWORD PTR [rdx+rcx*1+0x10],xmm1
    movaps XMMWORD PTR [rdx+rcx*1+0x20],xmm2
    movaps XMMWORD PTR [rdx+rcx*1+0x30],xmm3
5:
    sfence
    xor rbx,0x100
    mov QWORD PTR [rdi+0x60],rbx
    mov DWORD PTR [rdi+0x70],ebp
6:
    pop rbx
    pop r14
    pop rbp
    ret
7:
    mov r14,rdi
    mov rsi,rbx
    call <doorbell::mlx5::ring::send::SendRing<R,C>::copy_around_the_end>
    mov rdi,r14
    jmp 5
