// Package heavy finds the heaviest keys of a stream, in bounded memory.
package heavy

import "slices"

// Sketch keeps the heaviest keys of a weighted stream, by the algorithm of Misra and Gries ("Finding repeated elements",
// 1982) with the weights of Anderson and others ("A high-performance algorithm for identifying frequent items in data
// streams", 2017). With New(k) it holds at most 2k keys. When another comes, each key loses the weight of the (k+1)th
// heaviest, and keys without weight are evicted, so that at most k stay. If N is the weight of the stream,
//
//	Weight(key) ≤ true weight of the key ≤ Weight(key) + Missing(), and Missing() ≤ N/(k+1).
//
// A key that is not in the sketch has a Weight of 0; every key of more than N/(k+1) is in it. The sum of a key's
// weights in several sketches is a lower bound for their streams together, too low by at most the sum of their Missing.
//
// Each key has a value of type T. Counts that the caller adds to it are lower bounds, too, and at least the Weight.
//
// A key is a hash with a random seed: of ten million streams of a billion keys, one has a collision in a sketch of a
// thousand. Adding to a key in the sketch costs a map lookup; adding another costs, on average, a few steps more. A full
// sketch allocates nothing. Only one goroutine at a time may use it. The zero value is unusable: use New.
type Sketch[T any] struct {
	k       int
	entries []Entry[T]       // elements beyond its length keep the memory of their T
	index   map[uint64]int32 // the index of a key in entries
	missing uint64
	weights []uint64 // scratch space of shrink
}

// Entry is a key in a sketch.
type Entry[T any] struct {
	Key    uint64
	Weight uint64 // see Sketch
	Value  T
}

// New makes a sketch that holds at most 2k keys. It allocates memory as needed.
func New[T any](k int) *Sketch[T] {
	k = max(1, k)
	return &Sketch[T]{k: k, index: make(map[uint64]int32, 2*k)}
}

// Add adds to the weight of a key, and returns its value, valid until the next call. If fresh, the key was not in the
// sketch: the value then is an evicted key's, whose memory can be reused.
func (s *Sketch[T]) Add(key, weight uint64) (value *T, fresh bool) {
	if i, ok := s.index[key]; ok {
		h := &s.entries[i]
		h.Weight += weight
		return &h.Value, false
	}
	if len(s.entries) == 2*s.k {
		s.shrink()
	}
	n := len(s.entries)
	s.entries = slices.Grow(s.entries, 1)[:n+1]
	h := &s.entries[n]
	h.Key, h.Weight = key, weight
	s.index[key] = int32(n)
	return &h.Value, true
}

// Entries returns the keys in the sketch, in no order. The sketch owns the slice: read it before the next call.
func (s *Sketch[T]) Entries() []Entry[T] { return s.entries }

// Missing returns by how much a key's Weight in the current stream may be too low.
func (s *Sketch[T]) Missing() uint64 { return s.missing }

// Reweigh begins a new stream: it sets the weight of each key, and evicts keys of weight 0.
func (s *Sketch[T]) Reweigh(weight func(h *Entry[T]) uint64) {
	s.missing = 0
	s.setWeights(weight)
}

// setWeights sets the weight of each key, and evicts those of 0.
func (s *Sketch[T]) setWeights(weight func(h *Entry[T]) uint64) {
	clear(s.index)
	n := 0
	for i := range s.entries {
		h := &s.entries[i]
		if h.Weight = weight(h); h.Weight == 0 {
			continue
		}
		s.entries[n], s.entries[i] = s.entries[i], s.entries[n]
		s.index[s.entries[n].Key] = int32(n)
		n++
	}
	s.entries = s.entries[:n]
}

// Reset evicts all keys.
func (s *Sketch[T]) Reset() { s.Reweigh(func(*Entry[T]) uint64 { return 0 }) }

// shrink evicts half of the keys or more.
func (s *Sketch[T]) shrink() {
	s.weights = s.weights[:0]
	for i := range s.entries {
		s.weights = append(s.weights, s.entries[i].Weight)
	}
	slices.Sort(s.weights)
	least := s.weights[len(s.weights)-1-s.k]
	s.missing += least
	s.setWeights(func(h *Entry[T]) uint64 { return h.Weight - min(h.Weight, least) })
}
