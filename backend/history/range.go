package history

// Range is a half-open range of time, in Unix seconds.
type Range struct{ From, To int64 }

// Always returns the range that holds every point of every series.
func Always() Range { return Range{0, (maxMinute + 1) * minute} }

// widen moves both ends outwards to multiples of a width.
func (r Range) widen(width int64) Range {
	return Range{floorDiv(r.From, width) * width, ceilDiv(r.To, width) * width}
}

// Length returns the range's length in seconds.
func (r Range) Length() int64 { return r.To - r.From }
