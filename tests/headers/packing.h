/* Layouts that #pragma pack asks for, and types that the language has no word for. */
#pragma once
#pragma pack(push,2)
union u2 { struct { char c; int x, y; }; long l[2]; };
struct nest { char k; struct { char a; union { int b; char c; }; } in; struct { short s; }; int z; };
#pragma pack(pop)
typedef struct { int k; } anon_t;
typedef anon_t alias_t;
typedef int (*fn_t)(int);
typedef u32 my32;
struct uses { alias_t a; fn_t f; my32 m; char text[8]; const char *p; double d; struct nest *np; void **vv; __int128 big; _Bool b; enum { IN1 = 9 } e; long double ld; _Complex float cf; __be16 port; };
#define ADD(a, b) ((a) + (b))
