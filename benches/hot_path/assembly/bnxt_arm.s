    push rbp
    push r15
    push r14
    push r12
    push rbx
    mov rax,QWORD PTR [rdi+0x30]
    movzx eax,BYTE PTR [rax]
    movzx ebx,al
    mov r14d,DWORD PTR [rdi+0x60]
    mov r15d,DWORD PTR [rdi+0x80]
    mov ebp,DWORD PTR [rdi+0x88]
    mov eax,ebp
    shr eax,1
    add eax,r15d
    inc eax
    mov DWORD PTR [rdi+0x84],eax
    mov eax,DWORD PTR [rdi+0x58]
    test eax,eax
    je 2
    dec eax
    mov DWORD PTR [rdi+0x58],eax
1:
    shl r14,0x20
    mov eax,r15d
    and eax,ebp
    and eax,0xffffff
    inc ebp
    xor ecx,ecx
    test ebp,r15d
    setne cl
    shl ecx,0x18
    or ecx,eax
    and ebx,0x3
    shl ebx,0x19
    or ebx,ecx
    or rbx,r14
    mov rax,QWORD PTR [rdi+0x38]
    mov QWORD PTR [rax],rbx
    pop rbx
    pop r12
    pop r14
    pop r15
    pop rbp
    ret
2:
    lea rax,[rdi+0x38]
    mov r12,rdi
    mov rdi,rax
    call <doorbell::bnxt::ring::paced::PacedRegister<R>::ask>
    mov rdi,r12
    jmp 1
