package top

// rate sets the rates of the rows. A new row has none: its connections may be old.
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

// keepRates copies the rates of the last sheet, since nothing was read again.
func (s *sheet) keepRates(before *sheet) {
	for i := range s.rows {
		if last := before.find(s.rows[i].id); last != nil {
			s.rows[i].rate, s.rows[i].rated = last.rate, last.rated
		}
	}
}

// growth returns the increase of all counters. A new counter does not count; one that
// decreased has begun again from zero.
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

// lookUp finds a counter, which is usually at its former index.
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
