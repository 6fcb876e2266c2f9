package transfer

import (
	"fmt"
	"strings"
)

// Mistake is what is wrong with one row, and what would be right. The rows behind it can be read.
type Mistake struct{ err error }

// Error names the line at fault and, if it is one, the column.
func (m *Mistake) Error() string { return m.err.Error() }

// Unwrap returns the error that has no line.
func (m *Mistake) Unwrap() error { return m.err }

func mistake(format string, args ...any) error { return &Mistake{fmt.Errorf(format, args...)} }

// maxTold is how many mistakes of a file, and how many of its paths, are told one by one.
const maxTold = 10

// Mistakes are what is wrong with a file of which nothing was counted.
type Mistakes struct {
	First []error // at most ten, by their lines
	More  int     // that are not among them
}

// add adds one.
func (m *Mistakes) add(err error) {
	if len(m.First) < maxTold {
		m.First = append(m.First, err)
		return
	}
	m.More++
}

// err returns the mistakes as an error, nil if there are none.
func (m *Mistakes) err() error {
	if len(m.First) == 0 {
		return nil
	}
	return m
}

// Error has a line for each mistake, and tells how many more there are.
func (m *Mistakes) Error() string {
	lines := make([]string, 0, maxTold+1)
	for _, err := range m.First {
		lines = append(lines, err.Error())
	}
	if m.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", m.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the first mistakes.
func (m *Mistakes) Unwrap() []error { return m.First }
