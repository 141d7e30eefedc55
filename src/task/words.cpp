#include "task/words.h"

#include <array>

namespace kvphase::task {

std::span<const std::string> candidate_words() {
  static const std::array kWords = std::to_array<std::string>(
      {"river",   "stone",    "house",    "water",   "paper",   "music",    "night",   "light",
       "world",   "table",    "horse",    "green",   "metal",   "glass",    "chair",   "bread",
       "apple",   "plant",    "train",    "beach",   "cloud",   "dream",    "earth",   "field",
       "flower",  "forest",   "fruit",    "garden",  "gold",    "grass",    "heart",   "island",
       "king",    "lake",     "leaf",     "lion",    "moon",    "mountain", "mouse",   "ocean",
       "orange",  "paint",    "park",     "piano",   "pilot",   "planet",   "plate",   "pool",
       "port",    "prince",   "queen",    "rain",    "ring",    "road",     "rock",    "roof",
       "room",    "rose",     "salt",     "sand",    "school",  "sea",      "seed",    "ship",
       "shirt",   "shoe",     "silver",   "sister",  "sky",     "snow",     "sound",   "space",
       "spring",  "star",     "steel",    "stick",   "storm",   "street",   "sugar",   "summer",
       "sun",     "sword",    "tail",     "tank",    "teacher", "team",     "temple",  "tent",
       "theater", "tiger",    "tooth",    "tower",   "town",    "toy",      "track",   "tree",
       "truck",   "valley",   "village",  "voice",   "wall",    "watch",    "wave",    "wheel",
       "wind",    "window",   "wing",     "winter",  "wire",    "wolf",     "wood",    "wool",
       "yard",    "arm",      "army",     "art",     "baby",    "ball",     "band",    "bank",
       "bar",     "base",     "basket",   "bath",    "bear",    "bed",      "bell",    "belt",
       "bike",    "bird",     "block",    "blood",   "board",   "boat",     "body",    "bomb",
       "bone",    "book",     "boot",     "border",  "bottle",  "bowl",     "box",     "boy",
       "brain",   "branch",   "bridge",   "brother", "brush",   "bus",      "button",  "cable",
       "cake",    "camera",   "camp",     "can",     "captain", "car",      "card",    "castle",
       "cat",     "cell",     "chain",    "cheese",  "chest",   "chicken",  "child",   "church",
       "circle",  "city",     "class",    "clock",   "cloth",   "club",     "coach",   "coal",
       "coast",   "coat",     "coffee",   "coin",    "color",   "copper",   "corn",    "corner",
       "cotton",  "country",  "court",    "cow",     "cream",   "crew",     "crown",   "cup",
       "dance",   "daughter", "desert",   "desk",    "diamond", "dinner",   "doctor",  "dog",
       "door",    "dragon",   "dress",    "drink",   "driver",  "drug",     "drum",    "duck",
       "dust",    "eagle",    "ear",      "east",    "edge",    "egg",      "engine",  "eye",
       "face",    "factory",  "farm",     "father",  "finger",  "fire",     "fish",    "flag",
       "floor",   "food",     "foot",     "fox",     "frame",   "friend",   "game",    "gas",
       "gate",    "ghost",    "giant",    "girl",    "glove",   "goat",     "grain",   "gun",
       "hair",    "hall",     "hammer",   "hand",    "hat",     "hill",     "hole",    "home",
       "honey",   "hook",     "hospital", "hotel",   "ice",     "iron",     "jacket",  "jar",
       "judge",   "juice",    "jump",     "jury",    "key",     "kid",      "kitchen", "knife",
       "lamp",    "land",     "leather",  "leg",     "lemon",   "letter",   "library", "lip",
       "lock",    "machine",  "magic",    "mail",    "map",     "mark",     "market",  "mask",
       "match",   "meal",     "meat",     "milk",    "mill",    "mind",     "mine",    "mirror",
       "model",   "money",    "monkey",   "month",   "mother",  "motor",    "mouth",   "movie",
       "museum",  "nail",     "name",     "neck",    "nest",    "net",      "north",   "nose",
       "nurse",   "oak",      "office",   "oil",     "onion",   "owner",    "page",    "palace",
       "pan",     "parent",   "partner",  "party",   "path",    "pattern",  "pen",     "pepper",
       "person",  "phone",    "photo",    "picture", "pie",     "pig",      "pin",     "pine",
       "pipe",    "pizza",    "player",   "pocket",  "poem",    "poet",     "police",  "post",
       "pot",     "potato",   "powder",   "prison",  "rabbit",  "race",     "radio",   "rail",
       "rat",     "rice",     "rider",    "rifle",   "robot",   "rope",     "route",   "ruler",
       "runner",  "sail",     "salad",    "sauce",   "scale",   "scene",    "seat",    "shadow",
       "shape",   "sheep",    "sheet",    "shell",   "shop",    "shoulder", "side",    "sign",
       "silk",    "singer",   "skin",     "smoke",   "snake",   "soap",     "soldier", "son",
       "song",    "soup",     "south",    "spider",  "spoon",   "square",   "stage",   "stair",
       "stamp",   "station",  "statue",   "stomach", "store",   "student",  "studio",  "suit",
       "surface", "tape",     "target",   "taxi",    "tea",     "thread",   "throat",  "ticket",
       "tie",     "tile",     "tongue",   "tool",    "trail",   "trip",     "tube",    "uncle",
       "uniform", "vehicle",  "victim",   "video",   "violin",  "visitor",  "wagon",   "waist",
       "weapon",  "weather",  "wedding",  "west",    "whale",   "wheat",    "wife",    "wine",
       "witness", "woman",    "worker",   "writer",  "zone"});
  return kWords;
}

}  // namespace kvphase::task
