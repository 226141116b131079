    mov eax,DWORD PTR [rdi+0x74]
    cmp eax,DWORD PTR [rdi+0x78]
    je 2
    push r14
    push rbx
    push rax
    mov ecx,DWORD PTR [rdi+0x6c]
    mov edx,DWORD PTR [rdi+0x70]
    mov DWORD PTR [rdi+0x78],eax
    mov rsi,QWORD PTR [rdi+0x10]
    mov DWORD PTR [rsi+0xc],eax
    lea eax,[rcx+0x1]
    xor ebx,ebx
    test edx,eax
    setne bl
    and ecx,edx
    and ecx,0xffffff
    shl ebx,0x18
    or ebx,ecx
    mov eax,DWORD PTR [rdi+0x38]
    mov ecx,DWORD PTR [rdi+0x68]
    shl rcx,0x20
    or rbx,rcx
    test eax,eax
    je 3
    dec eax
    mov DWORD PTR [rdi+0x38],eax
1:
    mov rax,QWORD PTR [rdi+0x18]
    mov QWORD PTR [rax],rbx
    add rsp,0x8
    pop rbx
    pop r14
2:
    ret
3:
    lea rax,[rdi+0x18]
    mov r14,rdi
    mov rdi,rax
    call <doorbell::bnxt::ring::paced::PacedRegister<R>::ask>
    mov rdi,r14
    jmp 1
