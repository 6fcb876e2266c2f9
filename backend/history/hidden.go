package history

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// errHidden stands for the errors of damaged series, which name keys and so may name values.
var errHidden = errors.New("what is stored of it is damaged; the reason is shown to whoever may read values")

type hidingKey struct{}

// HideValues returns a context in which a [HidingStore] hides values: each is replaced by a hash under key, so that
// values stay apart and sums exact. The key must be secret, as values are easily guessed.
func HideValues(ctx context.Context, key []byte) context.Context {
	return context.WithValue(ctx, hidingKey{}, key)
}

// HidesValues reports whether [HideValues] has made a context.
func HidesValues(ctx context.Context) bool { return ctx.Value(hidingKey{}) != nil }

// HidingStore returns a store whose queries hide values where their context says so; see [HideValues].
func HidingStore(s Store) Store { return hidingStore{s} }

// IsPersonal reports whether a series' value came with requests.
func IsPersonal(value string) bool { return value != "" && value != OtherValue }

type hidingStore struct{ Store }

// Query is the store's. Where values are hidden, a query names one by its hash.
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
			hash.Write([]byte(s.ID.Value)) // a hash takes everything
			s.ID.Value = "hidden-" + hex.EncodeToString(hash.Sum(nil)[:6])
		}
		if wanted != nil && !s.Unnamed && s.ID.Value != *wanted {
			return nil
		}
		return yield(s)
	})
}
