    mov rax,QWORD PTR [rdi+0x50]
    mov ecx,0xffffff
    and ecx,DWORD PTR [rdi+0x70]
    mov rdx,QWORD PTR [rdi+0x58]
    mov edx,DWORD PTR [rdx]
    and edx,0x3
    shl edx,0x1c
    or edx,ecx
    mov ecx,edx
    bswap ecx
    mov DWORD PTR [rax],ecx
    mov eax,DWORD PTR [rdi+0x74]
    and eax,0xffffff
    shl rdx,0x20
    or rdx,rax
    bswap rdx
    mov rax,QWORD PTR [rdi+0x60]
    mov QWORD PTR [rax],rdx
    ret
