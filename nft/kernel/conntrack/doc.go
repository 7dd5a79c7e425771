// Package conntrack reads entries of the kernel's connection tracking and ends
// them. It only knows how; which ones is for others to say.
//
//	kernel: entries of a protocol, or of one of its ports
//	           |
//	           v  List
//	want(original destination, reply source)? --- no ---> forgotten
//	           |
//	          yes
//	           v
//	        []Entry --- Delete ---> kernel: each by what identifies it
//
// An entry is remembered and ended by the whole tuple of its replies, its zone and
// its id. If it has ended in between, one that has taken its place and leads to
// another endpoint is left alone.
//
// The kernel could also delete by a filter (CTA_FILTER in CT_DELETE, since Linux
// 6.11). That is not used. By IPv6 address it deletes the wrong entries: the
// comparison in ctnetlink_filter_match_tuple is turned round (seen in 6.1 and
// 6.18), so that what is asked for stays and everything else goes. It does not
// say how many it deleted, and cannot be told "none of these endpoints"; nobody
// can look at an entry once more; and it is no faster than to list and to delete.
// For the first reason lists too are filtered by protocol and port alone.
package conntrack
