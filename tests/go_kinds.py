"""Go programs of ten kinds. A program is run with the names of kinds; it counts the calls of some functions and their
returns, adds up arguments and results, and prints a line for each: ``leaf CALLS ARGUMENTS RETURNS RESULTS``."""

from __future__ import annotations

COUNTING = r"""
type count struct{ calls, arguments, returns, results int64 }
var counts [6]count
var names = []string{"leaf", "area", "grown", "twice", "closure", "last"}
func begin(i, x int) { atomic.AddInt64(&counts[i].calls, 1); atomic.AddInt64(&counts[i].arguments, int64(x)) }
func end(i, r int) int {
	atomic.AddInt64(&counts[i].returns, 1)
	atomic.AddInt64(&counts[i].results, int64(r))
	return r
}
//go:noinline
func leaf(x int) int { begin(0, x); return end(0, x * 6 + 2) }
func main() {
	runtime.GOMAXPROCS(4)
	for _, kind := range os.Args[1:] { kinds[kind]() }
	for i, name := range names {
		c := &counts[i]
		if c.calls > 0 { fmt.Println(name, c.calls, c.arguments, c.returns, c.results) }
	}
}
"""

# Where each has the argument that it counts: after a receiver, or what tells a generic function its types.
FUNCTIONS = {"leaf": ("main.leaf", 0), "area": ("main.(*square).area", 1), "grown": ("main.grown", 0),
             "twice": ('go:"main.twice"', 1), "closure": ("main.closures.func1", 0), "last": ("main.last", 9)}

PLAIN = r"""
package main
import ("fmt"; "os"; "runtime"; "sync"; "sync/atomic"; "time")
""" + COUNTING + r"""
type square struct{ side int }
type shape interface{ area(x int) int }
type number interface{ ~int | ~int32 }
//go:noinline
func (s *square) area(x int) int { begin(1, x); return end(1, s.side * s.side + x) }
//go:noinline
func twice[T number](x T) T { begin(3, int(x)); return T(end(3, int(x) * 2)) }
//go:noinline
func grown(n int) int {
	begin(2, n)
	var room [128]int
	room[n % 128] = n
	if n == 0 { return end(2, room[0]) }
	return end(2, grown(n - 1) + room[n % 128])
}
//go:noinline
func last(a, b, c, d, e, f, g, h, i, x int) int { begin(5, x); return end(5, a + i + x) }
//go:noinline
func apply(f func(int) int, x int) int { return f(x) }

func spread(n int, work func(int)) {
	var group sync.WaitGroup
	for x := 0; x < n; x++ {
		group.Add(1)
		go func(x int) { defer group.Done(); work(x) }(x)
	}
	group.Wait()
}
func fan() { spread(1000, func(x int) { last(1, 2, 3, 4, 5, 6, 7, 8, 9, leaf(x)) }) }
func channels() {
	numbers, results, timer := make(chan int), make(chan int, 5), time.NewTicker(time.Millisecond)
	spread(4, func(g int) {
		if g > 0 {
			for x := range numbers { results <- leaf(x) }
			return
		}
		for x, got := 0, 0; got < 300; {
			to := numbers
			if x == 300 { to = nil }
			select {
			case to <- x: x++; if x == 300 { close(numbers) }
			case r := <-results: got++; last(0, 0, 0, 0, 0, 0, 0, 0, 0, r)
			case <-timer.C: leaf(-1)
			}
		}
	})
}
func panics() {
	spread(300, func(x int) {
		defer func() { if e := recover(); e != nil { last(0, 0, 0, 0, 0, 0, 0, 0, 0, x) } }()
		if x % 7 == 0 { begin7(x) }
		apply(func(y int) int { if y % 3 == 0 { panic(y) }; return leaf(y) }, x)
	})
}
func begin7(x int) { defer leaf(x); runtime.Goexit() }
func recursion() { spread(100, func(x int) { grown(x * 9 % 500); runtime.Gosched(); grown(x) }) }
func closures() {
	base := len(os.Args)
	for x := 0; x < 100; x++ {
		apply(func(y int) int { begin(4, y); return end(4, y + base) }, x)
	}
}
func methods() {
	shapes := []shape{&square{2}, &square{3}}
	spread(100, func(x int) { f := shapes[x % 2].area; f(x); (&square{x}).area(1) })
}
func generics() { spread(100, func(x int) { twice(x); twice(int32(x)) }) }
func preempted() {
	spread(20, func(x int) {
		n := 0
		for i := 0; i < 200; i++ {
			for k := 0; k < 20000; k++ { n += k ^ i }
			leaf(i + n & 1)
		}
		if x % 5 == 0 { runtime.GC() }
	})
}
func sleeping() {
	spread(200, func(x int) { apply(func(y int) int { time.Sleep(time.Millisecond); return leaf(y) }, x) })
}
var kinds = map[string]func(){"fan": fan, "channels": channels, "panics": panics, "recursion": recursion,
	"closures": closures, "methods": methods, "generics": generics, "preempted": preempted, "sleeping": sleeping}
"""

# One with a large part of Go's library, which is linked with C's: a web server, and calls of C that call Go again.
LARGE = r"""
package main
// extern int back(int);
// static inline int forth(int x) { return back(x) + 1; }
import "C"
import ("fmt"; "io"; "net"; "net/http"; "os"; "runtime"; "strconv"; "sync"; "sync/atomic")
""" + COUNTING + r"""
//export back
func back(x C.int) C.int { return C.int(leaf(int(x))) }
func calls() {
	var group sync.WaitGroup
	for g := 0; g < 8; g++ {
		group.Add(1)
		go func(g int) { defer group.Done(); for i := 0; i < 50; i++ { end(0, int(C.forth(C.int(i + g))) * 0) } }(g)
	}
	group.Wait()
	atomic.AddInt64(&counts[0].returns, -400)
}
func serve() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, _ := strconv.Atoi(r.FormValue("x"))
		fmt.Fprint(w, leaf(x))
	}))
	var group sync.WaitGroup
	for g := 0; g < 4; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for i := 0; i < 25; i++ {
				answer, err := http.Get(fmt.Sprintf("http://%s/?x=%d", listener.Addr(), g * 100 + i))
				if err != nil { panic(err) }
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if string(text) != strconv.Itoa((g * 100 + i) * 6 + 2) { panic(string(text)) }
			}
		}(g)
	}
	group.Wait()
}
var kinds = map[string]func(){"calls": calls, "serve": serve}
"""

# A thousand goroutines on four threads within calls that wait, are preempted, call themselves and have their stacks
# grow. A call returns 100 times its first argument and its second; a goroutine prints its number, and how long its
# calls took as seen from within and from without.
MANY = r"""
package main
import ("fmt"; "runtime"; "sync"; "time")
//go:noinline
func deep(n int) int {
	var a [64]int
	a[n % 64] = n
	if n == 0 { return a[0] }
	return deep(n - 1) + a[n % 64]
}
//go:noinline
func work(g, i int, within, without *int64) int {
	since := time.Now()
	if i % 3 == 0 { time.Sleep(time.Millisecond) }
	if i % 3 == 1 { runtime.Gosched() }
	if i % 5 == 0 { deep(g % 300) }
	if i < 6 && i % 2 == 0 { timed(g, i + 1, within, without) }
	*within += int64(time.Since(since))
	return 100 * g + i
}
//go:noinline
func timed(g, i int, within, without *int64) {
	since := time.Now()
	work(g, i, within, without)
	*without += int64(time.Since(since))
}
func main() {
	runtime.GOMAXPROCS(4)
	var group sync.WaitGroup
	var times [1000][2]int64
	for g := range times {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			for i := 0; i < 10; i++ { timed(g, i, &times[g][0], &times[g][1]) }
		}(g)
	}
	group.Wait()
	for g, pair := range times { fmt.Println("goroutine", g, pair[0], pair[1]) }
}
"""
