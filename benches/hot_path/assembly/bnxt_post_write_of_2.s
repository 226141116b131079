    push rbp
    push r15
    push r14
    push r13
    push r12
    push rbx
    push rax
    mov rax,rdi
    mov rcx,QWORD PTR [rsi+0x40]
    cmp rcx,0x2
    jae 1
    mov edx,0x1
    mov edi,0x2
    jmp 2
1:
    mov r14d,DWORD PTR [rdx+0x8]
    mov r15d,DWORD PTR [rdx+0x18]
    lea r12,[r15+r14*1]
    mov rdi,QWORD PTR [rsi+0x50]
    cmp r12,rdi
    jbe 3
    mov edx,0x3
2:
    mov DWORD PTR [rax],edx
    mov DWORD PTR [rax+0x4],edi
    mov DWORD PTR [rax+0x8],ecx
    jmp 5
3:
    mov rbx,QWORD PTR [rdx+0x38]
    mov ecx,DWORD PTR [rsi+0x6c]
    mov edi,DWORD PTR [rsi+0x70]
    mov r8d,ecx
    sub r8d,edi
    add r8d,DWORD PTR [rsi+0x80]
    cmp r8d,0x4
    jb 6
    mov r8d,DWORD PTR [rsi+0x74]
    mov r9d,DWORD PTR [rsi+0x7c]
    sub r9d,r8d
    add r9d,DWORD PTR [rsi+0x5c]
    je 6
4:
    mov r9,QWORD PTR [rsi]
    mov r10,QWORD PTR [rdx+0x20]
    mov r11d,DWORD PTR [rdx+0x30]
    mov r12d,r12d
    mov r13d,edi
    and r13d,ecx
    shl r13,0x4
    mov QWORD PTR [r9+r13*1],0x40104
    mov QWORD PTR [r9+r13*1+0x8],r12
    lea r12d,[rdi+0x1]
    and r12d,ecx
    shl r12,0x4
    mov QWORD PTR [r9+r12*1],r10
    mov QWORD PTR [r9+r12*1+0x8],r11
    lea r10d,[rdi+0x2]
    mov r11,QWORD PTR [rdx]
    mov r12d,DWORD PTR [rdx+0xc]
    mov r13,QWORD PTR [rdx+0x10]
    mov edx,DWORD PTR [rdx+0x1c]
    mov rbp,r14
    shl rbp,0x20
    or rbp,r12
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],r11
    mov QWORD PTR [r9+r10*1+0x8],rbp
    lea r10d,[rdi+0x3]
    mov r11,r15
    shl r11,0x20
    or r11,rdx
    and r10d,ecx
    shl r10,0x4
    mov QWORD PTR [r9+r10*1],r13
    mov QWORD PTR [r9+r10*1+0x8],r11
    lea edx,[r14+r15*1]
    movzx ecx,BYTE PTR [rsi+0x88]
    cmp edx,0x1
    adc edx,0xffffffff
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
5:
    add rsp,0x8
    pop rbx
    pop r12
    pop r13
    pop r14
    pop r15
    pop rbp
    ret
6:
    mov QWORD PTR [rsp],rdx
    mov r13,rax
    mov rbp,rsi
    mov rdi,rsi
    mov esi,0x4
    call <doorbell::bnxt::ring::send::SendRing<R>::has_room>
    test al,al
    je 7
    mov rsi,rbp
    mov ecx,DWORD PTR [rbp+0x6c]
    mov edi,DWORD PTR [rbp+0x70]
    mov r8d,DWORD PTR [rbp+0x74]
    mov rax,r13
    mov rdx,QWORD PTR [rsp]
    jmp 4
7:
    mov rax,r13
    mov DWORD PTR [r13+0x0],0x0
    jmp 5
