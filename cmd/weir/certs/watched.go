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

// watched is what files hold, as long as they can be read, and what they last held well otherwise.
type watched[T any] struct {
	files []string
	parse func(contents [][]byte) (T, error) // its error names the file
	log   *slog.Logger

	mu       sync.Mutex // protects what follows
	contents [][]byte   // that good was made of
	good     T
	told     string // what is wrong with the files, as the log has it
}

// watch reads files for the first time.
func watch[T any](log *slog.Logger, parse func(contents [][]byte) (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{files: files, parse: parse, log: log}
	_, err := w.read()
	return w, err
}

// now returns what the files hold, or held last. It reads them each time, so that no connection is made with what was
// replaced before: a handshake costs much more. It can be called by many goroutines.
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
		w.log.Info("TLS files are new", "files", strings.Join(w.files, " "))
	}
	return w.good
}

// read reports whether the files hold something new, and makes it what is good.
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
