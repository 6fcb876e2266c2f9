// Package curves answers questions about the history of hits: how many there were over time, which rules had the most,
// and whether each series holds exactly what it ever counted.
package curves

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxAsked is how many questions are worked on at a time, so that they never use up the limiter's memory; others wait.
const maxAsked = 2

// History answers from a store. Its methods may be called by any number of goroutines; make it with [NewHistory]. Their
// errors are a [Refusal], or the store's.
type History struct {
	store history.Store
	now   func() time.Time
	turns chan struct{}
}

// NewHistory answers from a store; now is the clock that relative times are read by.
func NewHistory(store history.Store, now func() time.Time) *History {
	return &History{store: store, now: now, turns: make(chan struct{}, maxAsked)}
}

// Refusal is the error of a question that cannot be answered: a sentence for whoever asked.
type Refusal string

// Error returns the sentence.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// WriteJSON writes a value as a line of JSON, with <, > and & as they are.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
