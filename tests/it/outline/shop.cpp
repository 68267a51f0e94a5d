#include <string>
namespace shop {
template <typename T>
class Cart : public Base {
public:
    explicit Cart(int a) : a_(a) {}
    ~Cart();
    int total() const;
    T add(T item) { return item; }
private:
    int a_;
};
template <typename T>
int Cart<T>::total() const { return a_; }
using Id = std::string;
}  // namespace shop
int main() { return 0; }
