package historytest

import (
	"errors"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// LoseChunk deletes the first stored chunk of a history's file, behind the back of its store, which is to be closed. The
// history then no longer holds what it counted.
func LoseChunk(t testing.TB, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket([]byte("rows")).Cursor()
		for key, _ := c.First(); key != nil; key, _ = c.Next() {
			if key[1] == 't' {
				return c.Delete()
			}
		}
		return errors.New("no chunk is stored")
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
