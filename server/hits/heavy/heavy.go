// Package heavy finds the keys that take the most of a stream, in memory that does not grow with the stream.
package heavy

import "slices"

// Sketch keeps the heaviest keys of a weighted stream: the algorithm of Misra and Gries ("Finding repeated elements",
// 1982) with weights, as Anderson and others have it ("A high-performance algorithm for identifying frequent items in
// data streams", 2017). With most = k it holds at most 2k keys. Once these are held and another comes, each loses the
// weight of the (k+1)th heaviest, and those with nothing left go: at most k stay. So, with N the weight of the stream,
//
//	Weight(key) ≤ true weight of the key ≤ Weight(key) + Missing(), and Missing() ≤ N/(k+1).
//
// A key that is not held has a Weight of 0; every key of more than N/(k+1) is held. The sum of a key's weights in
// several sketches is a lower bound for their streams together, and misses at most the sum of what they miss.
//
// With each key it holds a T. What is counted there since the key came is a lower bound, too: no less than its Weight.
//
// A key is a hash: with a random seed two keys of a billion share one in a sketch of a thousand once in ten million
// streams. A key that is held costs a look into a map; others, on average, a few steps more. Nothing is allocated
// once the sketch is full. It is for one goroutine at a time. The zero value is none: use New.
type Sketch[T any] struct {
	most    int
	held    []Held[T]        // those behind its end keep the room of their T
	at      map[uint64]int32 // where a key is in held
	missing uint64
	weights []uint64 // room to order them
}

// Held is a key that is held.
type Held[T any] struct {
	Key    uint64
	Weight uint64 // see Sketch
	Kept   T
}

// New makes a sketch. It takes its memory as it needs it.
func New[T any](most int) *Sketch[T] {
	most = max(1, most)
	return &Sketch[T]{most: most, at: make(map[uint64]int32, 2*most)}
}

// Add adds to the weight of a key, and returns what is kept with it until the next call. That is fresh if the key was
// not held: it then has what an earlier key left there, whose room can be used again.
func (s *Sketch[T]) Add(key, weight uint64) (kept *T, fresh bool) {
	if i, ok := s.at[key]; ok {
		h := &s.held[i]
		h.Weight += weight
		return &h.Kept, false
	}
	if len(s.held) == 2*s.most {
		s.shrink()
	}
	n := len(s.held)
	s.held = slices.Grow(s.held, 1)[:n+1]
	h := &s.held[n]
	h.Key, h.Weight = key, weight
	s.at[key] = int32(n)
	return &h.Kept, true
}

// Held returns the keys that are held, in no order. They are the sketch's own: read them before its next call.
func (s *Sketch[T]) Held() []Held[T] { return s.held }

// Missing returns the most that a key's Weight lacks of the present stream.
func (s *Sketch[T]) Missing() uint64 { return s.missing }

// Renew begins a stream in which the keys that are held have these weights so far, and forgets those of 0.
func (s *Sketch[T]) Renew(weight func(h *Held[T]) uint64) {
	s.missing = 0
	s.setWeights(weight)
}

// setWeights gives each key another weight, and forgets those of 0.
func (s *Sketch[T]) setWeights(weight func(h *Held[T]) uint64) {
	clear(s.at)
	n := 0
	for i := range s.held {
		h := &s.held[i]
		if h.Weight = weight(h); h.Weight == 0 {
			continue
		}
		s.held[n], s.held[i] = s.held[i], s.held[n]
		s.at[s.held[n].Key] = int32(n)
		n++
	}
	s.held = s.held[:n]
}

// Reset forgets all keys.
func (s *Sketch[T]) Reset() { s.Renew(func(*Held[T]) uint64 { return 0 }) }

// shrink makes room for half of the keys.
func (s *Sketch[T]) shrink() {
	s.weights = s.weights[:0]
	for i := range s.held {
		s.weights = append(s.weights, s.held[i].Weight)
	}
	slices.Sort(s.weights)
	least := s.weights[len(s.weights)-1-s.most]
	s.missing += least
	s.setWeights(func(h *Held[T]) uint64 { return h.Weight - min(h.Weight, least) })
}
