export interface Item<T> extends Base {
  name: string;
  price(percent: number): number;
}
export type Id = string | number;
export enum Kind { A, B }
export abstract class Cart implements Item<number> {
  private items: Item<number>[] = [];
  constructor(private readonly a: string) {}
  abstract total(): number;
  public async add<T>(item: T, n = 1): Promise<void> {}
}
namespace Shop {
  export function pay(cart: Cart): void {}
}
export const sum = (a: number): number => a;
declare function outer(a: string): void;
export class View {
  @Input() name = "";
  handle = (event: Event) => { this.name = ""; };
  @HostListener("click")
  click(): void {}
  [Symbol.iterator]() { return 1; }
}
