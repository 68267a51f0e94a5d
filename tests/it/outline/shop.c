#include <stdio.h>
#define MAX(a, b) ((a) > (b) ? (a) : (b))
struct item { int price; };
typedef struct { int a; } pair_t;
enum kind { A, B };
static int price(const struct item *i, int percent);
char *name(void);
static int price(const struct item *i, int percent) {
    return i->price;
}
int main(void) { return 0; }
