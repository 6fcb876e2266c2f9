package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/weirproxy/weir/descriptors/regular"
)

// watched is what files hold, or last held while they cannot be used.
type watched[T any] struct {
	files []string
	parse func(contents [][]byte) (T, error) // its error names the file
	log   *slog.Logger

	mu       sync.Mutex // protects what follows
	contents [][]byte   // of the files that good was parsed from
	good     T
	logged   string // the last error in the log, "" for none
}

// newWatched reads files for the first time. Without files it returns nil.
func newWatched[T any](log *slog.Logger, parse func([][]byte) (T, error), files ...string) (*watched[T], error) {
	if files[0] == "" {
		return nil, nil
	}
	w := &watched[T]{files: files, parse: parse, log: log}
	_, err := w.read()
	return w, err
}

// now reads the files and returns what they hold; while they cannot be used, what they held last; of nil nothing. A
// handshake costs much more than reading them. Any number of goroutines may call it.
func (w *watched[T]) now() (none T) {
	if w == nil {
		return none
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, err := w.read()
	switch {
	case err != nil && err.Error() != w.logged:
		w.logged = err.Error()
		w.log.Warn("new TLS files cannot be used: new connections are made with the last good ones", "error", err)
	case err == nil && w.logged != "":
		w.logged = ""
		w.log.Warn("TLS files can be used again", "files", strings.Join(w.files, " "))
	case changed:
		w.log.Info("TLS certificates reloaded", "files", strings.Join(w.files, " "))
	}
	return w.good
}

// read updates good if the files have changed, and reports whether they have.
func (w *watched[T]) read() (changed bool, err error) {
	contents := make([][]byte, len(w.files))
	for i, name := range w.files {
		if contents[i], err = regular.ReadFile(name); err != nil {
			return false, err
		}
		changed = changed || w.contents == nil || !bytes.Equal(contents[i], w.contents[i])
	}
	if !changed {
		return false, nil
	}
	good, err := w.parse(contents)
	if err != nil {
		return false, err
	}
	w.contents, w.good = contents, good
	return true, nil
}

// watch reads the certificate and its key, which may be in different directories, and the authorities. What is not
// named is nil.
func (f Files) watch(log *slog.Logger) (
	pair *watched[tls.Certificate], authorities *watched[*x509.CertPool], err error) {
	pair, err = newWatched(log, func(pem [][]byte) (tls.Certificate, error) {
		pair, err := tls.X509KeyPair(pem[0], pem[1])
		if err != nil {
			err = fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		return pair, err
	}, f.Cert, f.Key)
	if err != nil {
		return nil, nil, err
	}
	authorities, err = newWatched(log, func(pem [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem[0]) {
			return nil, errors.New(f.CA + " holds no certificate in PEM")
		}
		return pool, nil
	}, f.CA)
	return pair, authorities, err
}

// watchClient is watch for a client, which may have no certificate.
func (f Files) watchClient(log *slog.Logger) (*watched[tls.Certificate], *watched[*x509.CertPool], error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, nil, errors.New("a client's certificate and its key go together: name both files or none")
	}
	return f.watch(log)
}
