package top

// rate gives the rows their rates. A row that was not there before has none yet:
// what its counters hold may be of long ago.
func (s *sheet) rate(before *sheet) {
	if before == nil || !s.counted || !before.counted {
		return
	}
	took := s.countedAt.Sub(before.countedAt)
	if took == 0 {
		s.keepRates(before)
		return
	}
	for i := range s.rows {
		r := &s.rows[i]
		if last := before.find(r.id); last != nil && took > 0 {
			r.rate, r.rated = float64(growth(last.counts, r.counts))/took.Seconds(), true
		}
	}
}

// keepRates keeps the rates there were: nothing was read since.
func (s *sheet) keepRates(before *sheet) {
	for i := range s.rows {
		if last := before.find(s.rows[i].id); last != nil {
			s.rows[i].rate, s.rows[i].rated = last.rate, last.rated
		}
	}
}

// growth is how much counters have grown, together. One that was not there before
// does not count; one that went backwards has begun again from zero.
func growth(before, now []count) uint64 {
	var sum uint64
	for i, c := range now {
		last, ok := lookUp(before, c.port, i)
		switch {
		case !ok:
		case c.n < last:
			sum += c.n
		default:
			sum += c.n - last
		}
	}
	return sum
}

// lookUp finds a counter, which is mostly where it was.
func lookUp(counts []count, port portID, likely int) (uint64, bool) {
	if likely < len(counts) && counts[likely].port == port {
		return counts[likely].n, true
	}
	for _, c := range counts {
		if c.port == port {
			return c.n, true
		}
	}
	return 0, false
}
