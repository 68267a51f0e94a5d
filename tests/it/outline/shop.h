#ifndef SHOP_H
#define SHOP_H
#define LIMIT 10
#ifdef __cplusplus
extern "C" {
#endif
struct item { int price; };
int price(const struct item *i, int percent);
char *name(void);
#ifdef __cplusplus
}
#endif
#endif
