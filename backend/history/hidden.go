package history

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// errHidden replaces the errors of damaged series, which name keys and so may name values.
var errHidden = errors.New("what is stored of it is damaged; the reason is shown to whoever may read values")

type hidingKey struct{}

// HideValues returns a context in which a [HidingStore] hides values: it replaces each value by a keyed hash, so that
// different values stay different. The key must be secret, as values are easily guessed.
func HideValues(ctx context.Context, key []byte) context.Context {
	return context.WithValue(ctx, hidingKey{}, key)
}

// HidesValues reports whether values are hidden in a context; see [HideValues].
func HidesValues(ctx context.Context) bool { return ctx.Value(hidingKey{}) != nil }

// HidingStore returns a store whose queries hide values if their context says so; see [HideValues].
func HidingStore(s Store) Store { return hidingStore{s} }

// IsPersonal reports whether the value of a series comes from requests, and so may be personal data.
func IsPersonal(value string) bool { return value != "" && value != OtherValue }

type hidingStore struct{ Store }

// Query implements [Store]. If values are hidden, a query names a value by its hash.
func (h hidingStore) Query(ctx context.Context, q Query, yield func(Series) error) error {
	key, hides := ctx.Value(hidingKey{}).([]byte)
	if !hides {
		return h.Store.Query(ctx, q, yield)
	}
	wanted := q.Value
	if wanted != nil && IsPersonal(*wanted) {
		q.Value = nil
	}
	return h.Store.Query(ctx, q, func(s Series) error {
		if s.Err != nil {
			s.Err = errHidden
		}
		if IsPersonal(s.ID.Value) {
			hash := hmac.New(sha256.New, key)
			hash.Write([]byte(s.ID.Value)) // never fails
			s.ID.Value = "hidden-" + hex.EncodeToString(hash.Sum(nil)[:6])
		}
		if wanted != nil && !s.Unnamed && s.ID.Value != *wanted {
			return nil
		}
		return yield(s)
	})
}
