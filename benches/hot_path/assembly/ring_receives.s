    movzx eax,WORD PTR [rdi+0x44]
    bswap eax
    mov rcx,QWORD PTR [rdi+0x10]
    mov DWORD PTR [rcx],eax
    ret
