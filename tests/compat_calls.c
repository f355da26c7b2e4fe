// Makes system calls of the 32-bit kind, without a library: for each word its number and first argument, 102.3 say; the other
// arguments are 0. gcc -m32 -static -nostdlib
static int call(int number, int first)
{
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(0), "d"(0), "S"(0) : "memory");
	return result;
}

static int number_at(char **text)
{
	int number = 0;
	while (**text >= '0' && **text <= '9')
		number = number * 10 + *(*text)++ - '0';
	return number;
}

__attribute__((used)) static void begin(int *stack)
{
	char **words = (char **)(stack + 1);
	for (int i = 1; i < stack[0]; i++) {
		char *text = words[i];
		int number = number_at(&text);
		text++;
		call(number, number_at(&text));
	}
	call(1, 0);
}

__asm__(".globl _start\n_start: mov %esp, %eax\n push %eax\n call begin\n");
