package shop

import "fmt"

const Limit = 10

var (
	a = 1
	b = 2
)

type Item struct {
	Name string
}

type Priced interface {
	Price(percent int) (int, error)
}

type Id string

func (i *Item) Price(percent int) (int, error) {
	return 1, nil
}

func Main() { fmt.Println(a) }

const (
	Red = iota
	Blue
)

type Ids = map[string]Id

func Sum[T int | float64](list []T) (sum T) { return }
