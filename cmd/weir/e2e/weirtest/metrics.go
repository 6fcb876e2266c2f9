package weirtest

import (
	"fmt"
	"strconv"
	"strings"
)

// Metrics are the samples of a scrape, by name with labels as they are written: name{label="value"}.
type Metrics map[string]float64

// Scrape reads what a URL answers to Prometheus.
func Scrape(url string) (Metrics, error) {
	text, err := Get(url)
	if err != nil {
		return nil, err
	}
	m := make(Metrics)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if m[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("reading the metric %q: %w", line, err)
		}
	}
	return m, nil
}

// Scrape reads what weir answers to Prometheus.
func (w *Weir) Scrape() (Metrics, error) { return Scrape(w.Admin + "/metrics") }

// Sum adds all series of a metric whose labels hold a text.
func (m Metrics) Sum(name, label string) (sum float64) {
	for series, value := range m {
		if of, labels, _ := strings.Cut(series, "{"); of == name && strings.Contains(labels, label) {
			sum += value
		}
	}
	return sum
}
