package history

// Sample is how many hits a series had ever counted at a moment.
type Sample struct {
	At    int64 // Unix seconds
	Total uint64
}

// AppendSamples appends what the series had counted where each of its points begins and ends, oldest first, no moment
// twice: of points that touch, their border once. There the totals are exact, whatever the tiers; between them nothing
// is known but that they do not fall. A bucket that is not over ends at now, in Unix seconds.
//
// The points must be all of the series from some moment on, as a query without an end returns them: the totals are what
// it ever counted, less what is stored from there on. A series of which more is stored than it ever counted is damaged,
// and its totals begin with 0.
func (s *Series) AppendSamples(dst []Sample, now int64) []Sample {
	total := s.Lifetime - min(s.Stored(), s.Lifetime)
	last := int64(-1)
	for _, p := range s.Points {
		if p.Start > last {
			dst = append(dst, Sample{p.Start, total})
		}
		total += p.Sum
		last = max(min(p.End(), now), p.Start+1)
		dst = append(dst, Sample{last, total})
	}
	return dst
}
