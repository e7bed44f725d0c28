"""Known answers of the generators, from Random123's kat_vectors (version 1.09)."""

import unittest

from oracle.random_bits import philox4x32, threefry2x32


class KnownAnswers(unittest.TestCase):
    def test_threefry(self) -> None:
        ones = 0xFFFFFFFF
        self.assertEqual(threefry2x32((0, 0), (0, 0)), (0x6B200159, 0x99BA4EFE))
        self.assertEqual(threefry2x32((ones, ones), (ones, ones)), (0x1CB996FC, 0xBB002BE7))
        self.assertEqual(threefry2x32((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)), (0xC4923A9C, 0x483DF7A0))

    def test_philox(self) -> None:
        ones = 0xFFFFFFFF
        self.assertEqual(philox4x32((0, 0), (0, 0, 0, 0)), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8))
        self.assertEqual(philox4x32((ones, ones), (ones, ones, ones, ones)), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD))


if __name__ == "__main__":
    unittest.main()
