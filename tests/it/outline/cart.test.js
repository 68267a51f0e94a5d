import { Cart } from "./cart";

const FIXTURES = "./fixtures";
export const MAX_ITEMS = 3;

describe("Cart", () => {
  beforeEach(() => reset());

  it("adds an item", async () => {
    const total = (cart) => cart.total;
    expect(total(new Cart())).toBe(0);
  });
});
