using System;
namespace Shop.Core
{
    public interface IPriced { decimal Price(int percent); }
    public enum Kind { A, B }
    public record Point(int X, int Y);
    public class Cart<T> : Base, IPriced where T : class
    {
        public const int Limit = 10;
        public Cart(int a) { }
        [HttpGet("a")]
        [Obsolete]
        public int Get() { return 1; }
        public int Total { get; set; }
        public async Task<int> Add(T item, int n = 1) { return n; }
        public decimal Price(int percent) => 1m;
    }
    public delegate void Done(int a);
}
