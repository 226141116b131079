    mov eax,DWORD PTR [rdi+0x60]
    cmp eax,DWORD PTR [rdi+0x64]
    je 2
    push r14
    push rbx
    push rax
    mov ecx,DWORD PTR [rdi+0x5c]
    mov DWORD PTR [rdi+0x64],eax
    mov rdx,QWORD PTR [rdi+0x8]
    mov DWORD PTR [rdx+0xc],eax
    lea edx,[rcx+0x1]
    xor ebx,ebx
    test edx,eax
    setne bl
    and eax,ecx
    and eax,0xffffff
    shl ebx,0x18
    or ebx,eax
    mov eax,DWORD PTR [rdi+0x30]
    mov ecx,DWORD PTR [rdi+0x58]
    shl rcx,0x20
    or rbx,rcx
    test eax,eax
    je 3
    dec eax
    mov DWORD PTR [rdi+0x30],eax
1:
    mov rax,QWORD PTR [rdi+0x10]
    mov QWORD PTR [rax],rbx
    add rsp,0x8
    pop rbx
    pop r14
2:
    ret
3:
    lea rax,[rdi+0x10]
    mov r14,rdi
    mov rdi,rax
    call <doorbell::bnxt::ring::paced::PacedRegister<R>::ask>
    mov rdi,r14
    jmp 1
