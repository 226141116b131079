    mov rax,rdi
    mov rcx,QWORD PTR [rsi+0x48]
    cmp rcx,0x1f
    ja 1
    movabs rdx,0x2000000002
    mov QWORD PTR [rax],rdx
    mov DWORD PTR [rax+0x8],ecx
    ret
1:
    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov r14,QWORD PTR [rdx+0x20]
    mov r15d,DWORD PTR [rdx+0x30]
    mov rbx,QWORD PTR [rdx+0x38]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov edi,DWORD PTR [rsi+0x70]
    mov r8d,ecx
    sub r8d,edi
    add r8d,DWORD PTR [rsi+0x80]
    cmp r8d,0x4
    jb 4
    mov r8d,DWORD PTR [rsi+0x74]
    mov r9d,DWORD PTR [rsi+0x7c]
    sub r9d,r8d
    add r9d,DWORD PTR [rsi+0x5c]
    je 4
2:
    mov r9,QWORD PTR [rsi]
    mov r10d,edi
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],0x41104
    mov QWORD PTR [r9+r10*1+0x8],0x20
    lea r10d,[rdi+0x1]
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],r14
    mov QWORD PTR [r9+r10*1+0x8],r15
    lea r10d,[rdi+0x2]
    mov r11,QWORD PTR [rdx]
    mov r14,QWORD PTR [rdx+0x8]
    mov r15,QWORD PTR [rdx+0x10]
    mov rdx,QWORD PTR [rdx+0x18]
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],r11
    mov QWORD PTR [r9+r10*1+0x8],r14
    lea r10d,[rdi+0x3]
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],r15
    mov QWORD PTR [r9+r10*1+0x8],rdx
    movzx ecx,BYTE PTR [rsi+0x88]
    mov edx,0x1f
    shr edx,cl
    mov ecx,DWORD PTR [rsi+0x84]
    add edx,ecx
    inc edx
    mov r9d,DWORD PTR [rsi+0x6c]
    and ecx,0xffffff
    mov r10d,edx
    and r10d,0xffffff
    shl r10,0x18
    or r10,rcx
    mov ecx,edi
    and ecx,r9d
    shl rcx,0x30
    or rcx,r10
    shr r9d,1
    mov r10,QWORD PTR [rsi+0x8]
    and r9d,r8d
    mov QWORD PTR [r10+r9*8],rcx
    mov DWORD PTR [rsi+0x84],edx
    lea ecx,[rdi+0x4]
    mov DWORD PTR [rsi+0x70],ecx
    lea ecx,[r8+0x1]
    mov DWORD PTR [rsi+0x74],ecx
    mov rcx,QWORD PTR [rsi+0x10]
    lea edx,[rdi*2+0x9]
    mov rsi,QWORD PTR [rcx]
    and r8d,DWORD PTR [rcx+0x8]
    shl r8,0x4
    mov QWORD PTR [rsi+r8*1],rbx
    mov DWORD PTR [rsi+r8*1+0x8],edx
    mov DWORD PTR [rax],0x4
3:
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
4:
    mov r13,rdx
    mov r12,rax
    mov rbp,rsi
    mov rdi,rsi
    mov esi,0x4
    call <doorbell::bnxt::ring::send::SendRing<R>::has_room>
    test al,al
    je 5
    mov rsi,rbp
    mov ecx,DWORD PTR [rbp+0x6c]
    mov edi,DWORD PTR [rbp+0x70]
    mov r8d,DWORD PTR [rbp+0x74]
    mov rax,r12
    mov rdx,r13
    jmp 2
5:
    mov rax,r12
    mov DWORD PTR [r12],0x0
    jmp 3
