package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// watched is what files hold, or last held while they cannot be used.
type watched[T any] struct {
	files []string
	parse func(contents [][]byte) (T, error) // its error names the file
	log   *slog.Logger

	mu       sync.Mutex // protects what follows
	contents [][]byte   // of the files that good was parsed from
	good     T
	told     string // the error that was logged last, "" for none
}

// watch reads files for the first time.
func watch[T any](log *slog.Logger, parse func(contents [][]byte) (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, parse: parse, log: log}
	_, err := w.read()
	return w, err
}

// now reads the files and returns what they hold; while they cannot be used, what they held last. A handshake costs much
// more than reading them. Any number of goroutines may call it.
func (w *watched[T]) now() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, err := w.read()
	if err != nil { // they may have been replaced between the first and the last of them
		changed, err = w.read()
	}
	switch {
	case err != nil && err.Error() != w.told:
		w.told = err.Error()
		w.log.Warn("new TLS files cannot be used: new connections are made with the last good ones", "error", err)
	case err == nil && w.told != "":
		w.told = ""
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
		if contents[i], err = os.ReadFile(name); err != nil {
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

// watchPair reads a certificate and its key, which may be in different directories.
func watchPair(cert, key string, log *slog.Logger) (*watched[tls.Certificate], error) {
	return watch(log, func(pem [][]byte) (tls.Certificate, error) {
		pair, err := tls.X509KeyPair(pem[0], pem[1])
		if err != nil {
			return pair, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		return pair, nil
	}, cert, key)
}

// watchAuthorities reads a file of authorities. Without a file it returns nil.
func watchAuthorities(file string, log *slog.Logger) (*watched[*x509.CertPool], error) {
	if file == "" {
		return nil, nil
	}
	return watch(log, func(pem [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem[0]) {
			return nil, errors.New(file + " holds no certificate in PEM")
		}
		return pool, nil
	}, file)
}
