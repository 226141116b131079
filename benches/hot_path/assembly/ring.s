    mov eax,DWORD PTR [rdi+0x6c]
    cmp eax,DWORD PTR [rdi+0x70]
    je 1
    mov rcx,QWORD PTR [rdi+0x58]
    movzx edx,ax
    bswap edx
    mov rsi,QWORD PTR [rdi+0x10]
    mov DWORD PTR [rsi],edx
    mov rdx,QWORD PTR [rdi+0x18]
    mov QWORD PTR [rdx],rcx
    mov DWORD PTR [rdi+0x70],eax
1:
    ret
