package shop;

public class Shop extends Base implements Priced {
    private int a;
    public static final int LIMIT = 10;
    public Shop(int a) { this.a = a; }
    @Override
    @Path(value = "/a")
    public int price(int percent) throws Exception { return 1; }
    interface Inner { void run(); }
    enum Kind { A, B; Kind next() { return A; } }
    record Point(int x, int y) { double len() { return 1; } }
}
