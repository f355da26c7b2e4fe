/* What only a C compiler understands: tests/unit/test_headers.py compares both readings. */
#pragma once
#include <stdint.h>
#include <stddef.h>
#if defined(__has_include) && __has_include(<stdint.h>)
#define HAVE 1
#endif
#define DECLARE(name, type) struct name { type value; type next; }
DECLARE(gen, uint32_t);
#pragma pack(push, 1)
struct packed1 { char a; int b; };
#pragma pack(pop)
struct sized { char name[64 - sizeof(int)]; int tail; };
struct al { _Alignas(16) char c; int d; };
_Static_assert(sizeof(int) == 4, "int");
typedef __typeof__(sizeof(int)) my_size;
struct fp { int (*cb[3])(int, char *); void (*one)(void); my_size n; };
enum shifts { A1 = 1 << 3, B1 = sizeof(long) * 2, C1 = (A1 > 4) ? 77 : 1 };
struct flex { int n; uint8_t data[]; };
static inline int f(struct flex *x) { struct { int z; } y = { 1 }; return x->n + y.z; }
extern int vars[10];
struct bits { unsigned a:3; unsigned :0; unsigned b:5; uint64_t c:40; };
union u { struct { int x, y; }; long l[2]; };
struct arr2 { int m[2][3]; struct packed1 *p, q; };
#define MASK (A1 | 0x100)
#define NAME "odd"
typedef struct { int k; } anon_t;
typedef enum { E1 = 5, E2 } en_t;
struct uses { anon_t a; en_t e; struct bits b; };
