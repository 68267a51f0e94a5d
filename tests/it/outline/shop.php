<?php
namespace Shop\Core;
interface Priced { public function price(int $percent): int; }
trait Loud { public function shout(): void {} }
enum Kind: string { case A = 'a'; public function next(): self { return self::A; } }
abstract class Cart extends Base implements Priced {
    use Loud;
    const LIMIT = 10;
    #[Route('/a')]
    public function get(): int { return 1; }
    public function __construct(private int $a) {}
    abstract protected function total(): int;
    public static function build(int ...$a): static { return new static(1); }
}
function pay(Cart $cart): void { }
