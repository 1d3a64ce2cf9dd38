// Package sample has comments with code.
//
//	a table of   words
//
// and
//
//	if err := rt.Err(); err != nil {
//		return unknown
//	}
package sample
