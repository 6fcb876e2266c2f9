package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// parseDescriptor reads a descriptor as [descriptors.Descriptor.String] writes it: entries key=value, separated by
// commas. The first = of an entry separates, \, is a comma and \\ a backslash; any other backslash stands for itself.
func parseDescriptor(text string) (descriptors.Descriptor, error) {
	if text == "" {
		return nil, errors.New("it is empty: write key=value,key=value")
	}
	var d descriptors.Descriptor
	for _, entry := range splitEntries(text) {
		key, value, found := strings.Cut(entry, "=")
		if !found {
			return nil, fmt.Errorf(`%q in %q has no "=": write key=value, and a comma inside a value as \,`, entry, text)
		}
		if key == "" {
			return nil, fmt.Errorf(`%q in %q has no key before its "="`, entry, text)
		}
		d = append(d, descriptors.Entry{Key: unescape.Replace(key), Value: unescape.Replace(value)})
	}
	return d, nil
}

var unescape = strings.NewReplacer(`\\`, `\`, `\,`, `,`)

// splitEntries cuts text at its commas, but not at escaped ones. The parts are still escaped.
func splitEntries(text string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i+1 < len(text) && (text[i+1] == '\\' || text[i+1] == ',') {
				i++
			}
		case ',':
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

// parseLimit reads a limit as [descriptors.Limit.String] writes it: 10/minute, or 10/5minute. How its window moves
// is the service's affair.
func parseLimit(text string) (descriptors.Limit, error) {
	count, window, found := strings.Cut(text, "/")
	if !found {
		return descriptors.Limit{}, fmt.Errorf("%q has no \"/\": write a limit as 10/minute or 10/5minute", text)
	}
	requests, err := strconv.ParseUint(count, 10, 32)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q in %q is not a whole number from 0 to 4294967295", count, text)
	}
	unit := strings.TrimLeft(window, "0123456789")
	multiplier := uint64(1)
	if digits := window[:len(window)-len(unit)]; digits != "" {
		if multiplier, err = strconv.ParseUint(digits, 10, 32); err != nil || multiplier == 0 {
			return descriptors.Limit{}, fmt.Errorf("%q in %q is not a multiplier from 1 to 4294967295", digits, text)
		}
	}
	u, err := descriptors.ParseUnit(unit)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q: %w", text, err)
	}
	limit, err := descriptors.NewLimit(requests, u, uint32(multiplier), descriptors.FixedWindow, 0)
	if err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q: %w", text, err)
	}
	return limit, nil
}
