    push r15
    push r14
    push rbx
    mov rax,rdi
    mov ecx,DWORD PTR [rsi+0x44]
    cmp DWORD PTR [rsi+0x3c],ecx
    je 6
1:
    and ecx,DWORD PTR [rsi+0x40]
    mov rdi,QWORD PTR [rsi+0x30]
    imul rdi,rcx
    add rdi,QWORD PTR [rsi]
    mov r8d,DWORD PTR [rdx+0x8]
    test r8,r8
    je 5
    mov r9,QWORD PTR [rdx]
    mov r10d,DWORD PTR [rdx+0xc]
    and r8d,0x7fffffff
    bswap r9
    shl r8,0x20
    or r8,r10
    bswap r8
    mov QWORD PTR [rdi],r8
    mov QWORD PTR [rdi+0x8],r9
    mov r8d,0x1
    cmp r8d,DWORD PTR [rsi+0x24]
    jae 3
2:
    shl r8d,0x4
    movabs r9,0x1000000000000
    mov QWORD PTR [rdi+r8*1],r9
    mov QWORD PTR [rdi+r8*1+0x8],0x0
3:
    mov rdi,QWORD PTR [rsi+0x28]
    mov rdx,QWORD PTR [rdx+0x10]
    mov QWORD PTR [rdi+rcx*8],rdx
    inc DWORD PTR [rsi+0x44]
    mov edx,0x4
4:
    mov DWORD PTR [rax],edx
    pop rbx
    pop r14
    pop r15
    ret
5:
    xor r8d,r8d
    cmp r8d,DWORD PTR [rsi+0x24]
    jb 2
    jmp 3
6:
    mov rbx,rdx
    mov r14,rsi
    mov rdi,rsi
    mov r15,rax
    call QWORD PTR [rip]
    mov ecx,eax
    mov rax,r15
    xor edx,edx
    test cl,cl
    je 4
    mov rsi,r14
    mov ecx,DWORD PTR [r14+0x44]
    mov rdx,rbx
    jmp 1
