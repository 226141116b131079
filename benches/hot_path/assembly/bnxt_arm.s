    push rbp
    push r15
    push r14
    push r12
    push rbx
    mov rax,QWORD PTR [rdi+0x20]
    movzx eax,BYTE PTR [rax]
    movzx ebx,al
    mov ebp,DWORD PTR [rdi+0x74]
    mov r14d,DWORD PTR [rdi+0x50]
    mov r15d,DWORD PTR [rdi+0x70]
    mov DWORD PTR [rdi+0x78],ebp
    mov eax,DWORD PTR [rdi+0x48]
    test eax,eax
    je 2
    dec eax
    mov DWORD PTR [rdi+0x48],eax
1:
    shl r14,0x20
    mov eax,ebp
    and eax,r15d
    and eax,0xffffff
    inc r15d
    xor ecx,ecx
    test r15d,ebp
    setne cl
    shl ecx,0x18
    or ecx,eax
    and ebx,0x3
    shl ebx,0x19
    or ebx,ecx
    or rbx,r14
    mov rax,QWORD PTR [rdi+0x28]
    mov QWORD PTR [rax],rbx
    pop rbx
    pop r12
    pop r14
    pop r15
    pop rbp
    ret
2:
    lea rax,[rdi+0x28]
    mov r12,rdi
    mov rdi,rax
    call <doorbell::bnxt::ring::paced::PacedRegister<R>::ask>
    mov rdi,r12
    jmp 1
